"""The text explorers' JavaScript computes what Python computes, and works in a real browser."""

import base64
import json
import random
import sys
import unicodedata
from collections.abc import Iterator

import numpy as np
import pytest
import regex
from controls import OTHER_WORD, Explorer, assert_the_address_brings_all_back, next_frames
from explorer_pages import opened, served_pages
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pages import chromium, overflowing, violations

from attnlib import data
from attnlib.explore import explore
from attnlib.explore.bundle import FOLDER
from attnlib.explore.limits import LIMITS
from attnlib.explore.packed import LARGEST, pack
from attnlib.explore.readable import readable
from attnlib.pre_tokens import pre_tokens
from attnlib.tokenizer import BytePairTokenizer

LANGUAGES = ["ar", "de", "el", "en", "he", "hi", "hy", "ja", "ka", "ko", "ru", "ta", "th", "zh"]


@pytest.fixture(scope="module")
def trained() -> BytePairTokenizer:
    """A tokenizer that has learnt from every script of the book's texts."""
    text = "".join(data.declaration(language)[:1500] for language in LANGUAGES)
    return BytePairTokenizer.train(text, 256 + 900, progress=False)


def unassigned(character: str) -> bool:
    """Whether this Python's table of Unicode does not know the character yet."""
    return unicodedata.category(character) == "Cn"


# Every place where the two regular expressions could part: contractions, blanks of every kind,
# marks, numbers that are no digits, joined emoji, characters outside the first plane.
HARD = [
    "",
    " ",
    "\n",
    "aaaa aaa aa a",
    "I'll we've he'd it's 'S ''s 'tis rock'n'roll don\u2019t",
    "a  b   c\n\n\n d\t\te \r\n f\n",
    "x \u0085y\u00a0z\u1680\u2003\u2028\u2029\u202f\u3000 \ufeffw\u200bv\u180e",
    "\x00\x1c\x1d\x1e\x1f\x7f\x0b\x0c",
    "e\u0301 \u0301 ก็ นี้ हिन्दी தமிழ் שָׁלוֹם العَرَبِيَّة",
    "Ⅻ ² ½ ٣ ３ 〇 一 ㊿ 𝟙 12,345.67 1e-9",
    "👩‍👩‍👧 🏳️‍🌈 🇺🇳 👍🏽 ☺️ e️",
    "𝒜𓀀🀄\U0010ffff\ue000\ufffd",
    "한국어 日本語 中文。、「」 ＡＢＣ",
    "ǅ ß ſ İ ı K Å ﬁ",
    "if (x[i]!=0) { y += --z; } // «…»—–‑",
]


def test_the_texts_are_cut_into_pre_tokens_as_in_python(javascript):
    texts = [*HARD, *(data.declaration(language) for language in LANGUAGES)]
    found = javascript(FOLDER / "byte-pair.mjs", [("preTokens", [text]) for text in texts])
    assert found == [pre_tokens(text, "gpt-2") for text in texts]


def test_every_character_that_python_knows_is_cut_as_in_python(javascript):
    """Node, Python and regex each have their version of Unicode; new characters may differ."""
    known = [
        chr(code)
        for code in range(sys.maxunicode + 1)
        if not 0xD800 <= code < 0xE000 and not unassigned(chr(code))
    ]
    texts = [
        "".join(f"a{c} {c}1{c}" for c in known[i : i + 5000]) for i in range(0, len(known), 5000)
    ]
    found = javascript(FOLDER / "byte-pair.mjs", [("preTokens", [text]) for text in texts])
    assert len(known) > 250_000
    for text, pieces in zip(texts, found, strict=True):
        assert pieces == pre_tokens(text, "gpt-2")


def test_every_character_that_python_knows_is_shown_as_in_python(javascript):
    known = [
        chr(code)
        for code in range(sys.maxunicode + 1)
        if not 0xD800 <= code < 0xE000 and not unassigned(chr(code))
    ]
    known = [c for c in known if unicodedata.category(c) not in ("Lo", "Co")] + known[::997]
    calls = [("readable", [list(f"{c}x{c}".encode())]) for c in known]
    found = javascript(FOLDER / "readable.mjs", calls)
    assert found == [readable(f"{c}x{c}".encode()) for c in known]


def test_broken_bytes_are_shown_as_in_python(javascript):
    dice = random.Random(0)
    pool = [
        0x20,
        0x61,
        0x80,
        0xBF,
        0xC0,
        0xC3,
        0xA9,
        0xE2,
        0x82,
        0xAC,
        0xED,
        0xA0,
        0xF0,
        0x9F,
        0xFF,
    ]
    cases = [[dice.choice(pool) for _ in range(dice.randrange(9))] for _ in range(2000)]
    found = javascript(FOLDER / "readable.mjs", [("readable", [case]) for case in cases])
    assert found == [readable(bytes(case)) for case in cases]


def test_the_tokens_are_pythons_for_hard_texts_at_every_tenth_merge(javascript, trained):
    merges = trained.merges
    texts = [*HARD, *(data.declaration(language)[700:900] for language in LANGUAGES)]
    numbers = [0, 1, 2, 3, *range(10, 900, 90), 899, 900]
    cases = [(text, n) for text in texts for n in numbers]
    states = [{"text": text, "merges": merges, "n_merges": n} for text, n in cases]
    found = javascript(FOLDER / "tokens.mjs", [("facts", [state]) for state in states])
    for (text, n), facts in zip(cases, found, strict=True):
        assert facts["tokens"] == trained.with_merges(n).encode(text), (text, n)
        assert facts["bytes"] == len(text.encode())
        assert facts["characters"] == len(text)
        assert facts["words"] == len(regex.findall(r"\S+", text))
        before = trained.with_merges(max(n - 1, 0)).encode(text)
        assert facts["joins"] == len(before) - len(facts["tokens"])


TEXTS = st.text(alphabet=st.characters(exclude_categories=["Cn", "Cs"]), max_size=40)
NARROW = st.text(alphabet="aab \n'és", max_size=40)


# One call of Node for many texts: it takes longer to start than to count.
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    texts=st.lists(TEXTS | NARROW, min_size=50, max_size=50),
    learnt=NARROW.filter(bool),
    n=st.integers(0, 40),
)
def test_the_tokens_are_pythons_for_any_text_and_any_merges(javascript, texts, learnt, n):
    tokenizer = BytePairTokenizer.train(learnt * 2 + "aaaa baba", 296, progress=False)
    n = min(n, len(tokenizer.merges))
    states = [{"text": text, "merges": tokenizer.merges, "n_merges": n} for text in texts]
    found = javascript(FOLDER / "tokens.mjs", [("facts", [state]) for state in states])
    wanted = [tokenizer.with_merges(n).encode(text) for text in texts]
    assert [facts["tokens"] for facts in found] == wanted


def test_pairs_of_equal_ids_are_joined_from_the_left_in_both(javascript):
    merges = [(97, 97), (256, 97), (256, 256), (97, 258)]
    texts = ["a" * n for n in range(12)]
    states = [{"text": t, "merges": merges, "n_merges": n} for t in texts for n in range(5)]
    found = javascript(FOLDER / "tokens.mjs", [("facts", [state]) for state in states])
    assert [facts["tokens"] for facts in found] == [
        explore("tokens", **state).facts()["tokens"] for state in states
    ]


# ---- neighbours ---------------------------------------------------------------------------


def tables():
    dice = np.random.default_rng(3)
    falling = dice.normal(size=(60, 17)) * 0.8 ** np.arange(17)
    ties = dice.integers(-1, 2, size=(25, 4)).astype(float)
    ties[~ties.any(axis=1)] = 1.0
    yield falling
    yield ties
    yield np.array([[1.0], [-2.0]])
    yield dice.normal(size=(800, 100))


def test_neighbours_and_cosines_are_pythons_to_the_last_digit(javascript):
    for table in tables():
        words = [f"w{i}" for i in range(len(table))]
        packed = pack("vectors", table)
        columns = table.shape[1]
        states = [
            {"words": words, "vectors": packed, "word": words[i], "width": width}
            for i in sorted({0, len(words) // 2, len(words) - 1})
            for width in sorted({1, 2, columns // 2, columns} & set(range(1, columns + 1)))
        ]
        found = javascript(FOLDER / "neighbours.mjs", [("facts", [state]) for state in states])
        for state, facts in zip(states, found, strict=True):
            # Sums of whole numbers are exact; the roots, the product and the quotient are rounded
            # as IEEE 754 says, in the same order.
            assert facts == explore("neighbours", **state).facts()


def test_a_table_that_is_not_what_it_says_is_no_table(javascript):
    good = pack("vectors", np.ones((3, 2)))
    bad = [
        None,
        5,
        {},
        {**good, "rows": 2},
        {**good, "columns": 0},
        {**good, "int16": "*"},
        {**good, "int16": 5},
    ]
    found = javascript(FOLDER / "nearest.mjs", [("unpacked", [packed]) for packed in [good, *bad]])
    assert found[0]["rows"] == 3 and set(found[0]["entries"].values()) == {32767}
    assert found[1:] == [None] * len(bad)


# ---- both ---------------------------------------------------------------------------------


SIXTEENTHS = [[[LARGEST, 0, 0, 0, 0], [sign, 15, 5, 2, 1]] for sign in (1, -1)]


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("tokens", {}),
        ("tokens", {"n_merges": 1}),
        ("tokens", {"n_merges": 13, "text": ""}),
        ("tokens", {"n_merges": 22, "text": "\n \t\n"}),
        *(("tokens", {"n_merges": 4, "text": text}) for text in HARD),
        # 9 / 8 = 1.125, which Python alone would round down, and 201 / 200, which JavaScript would
        ("tokens", {"merges": [(97, 97)], "n_merges": 1, "text": "aabcdefgh"}),
        ("tokens", {"merges": [(97, 97)], "n_merges": 1, "text": "aa" + "b" * 199}),
        ("tokens", {"merges": [(0xE2, 0x82), (256, 0xAC)], "n_merges": 1, "text": "€" * 30}),
        ("neighbours", {}),
        ("neighbours", {"word": "sea", "width": 1}),
        ("neighbours", {"words": ["“", "b c", "ü"], "vectors": [[1, 2], [-1, 1], [3, 0]]}),
        # cosines of ±1/16, where Python alone would round to even and JavaScript away from zero
        *(("neighbours", {"words": ["a", "b"], "vectors": table}) for table in SIXTEENTHS),
    ],
)
def test_the_picture_in_words_is_pythons(name, options, javascript):
    explorer = explore(name, **options)
    [words] = javascript(FOLDER / f"{name}.mjs", [("describe", [explorer.state])])
    assert words == explorer.describe()


def test_a_link_brings_back_any_text_and_no_malformed_one(javascript, tmp_path):
    module = tmp_path / "links.mjs"
    module.write_text(
        f'import {{ parseFragment, withPart }} from "{(FOLDER / "share.mjs").as_uri()}";\n'
        f'import {{ parseFields, writeFields }} from "{(FOLDER / "state.mjs").as_uri()}";\n'
        f'import {{ fields as tokens }} from "{(FOLDER / "tokens.mjs").as_uri()}";\n'
        f'import {{ fields as neighbours }} from "{(FOLDER / "neighbours.mjs").as_uri()}";\n'
        "const all = { tokens, neighbours };\n"
        "export function there(name, state, initial) {\n"
        "  const part = writeFields(state, initial, all[name]);\n"
        "  const hash = new URL(`https://a.b/#${withPart('#softmax:tau=2', name, part)}`).hash;\n"
        "  const again = `#${withPart(hash, 'softmax', 'tau=3')}`;\n"
        "  return [hash, parseFields(parseFragment(again).get(name), initial, all[name])];\n"
        "}\n"
        "export const read = (name, text) => parseFields(text, {}, all[name]);\n"
    )
    texts = [*HARD, "a&b;c=d%20#e+f", "%", "~" * 2000, "語" * 2000]
    first = {"text": "start", "n_merges": 5}
    calls = [("there", ["tokens", {**first, "text": text}, first]) for text in texts]
    for text, (address, back) in zip(texts, javascript(module, calls), strict=True):
        assert back == {"text": text}
        assert len(address) < 40 + 4 / 3 * len(text.encode())
        assert all(" " < c < "\x7f" for c in address)
    words = ["king", "don't", "naïve", "a b", ".", "%41", "x;d=9", "語"]
    start = {"word": "start", "width": 3}
    calls = [("there", ["neighbours", {**start, "word": word}, start]) for word in words]
    found = javascript(module, calls)
    assert [back for _, back in found] == [{"word": word} for word in words]
    assert "word=king" in found[0][0]
    cut = base64.b64encode("語".encode()[:2]).decode().rstrip("=")
    half = base64.b64encode(b"\xed\xa0\x80").decode().rstrip("=")
    long = base64.b64encode(b"x" * 2001).decode().rstrip("=")
    bad = ["n=-1", "n=8193", "n=1.5", f"text={cut}", f"text={half}", f"text={long}", "text=a b"]
    bad += ["text=*", "text=a", "merges=1", "n_merges=3", "width=2"]
    found = javascript(module, [("read", ["tokens", text]) for text in bad])
    assert found == [{}] * len(bad)
    bad = ["d=0", "d=101", "word=", f"word={'x' * 41}", "word=.*", "vectors=1"]
    found = javascript(module, [("read", ["neighbours", text]) for text in bad])
    assert found == [{}] * len(bad)


def test_a_saved_value_that_cannot_be_chosen_falls_back_to_the_first_state(javascript, tmp_path):
    module = tmp_path / "read.mjs"
    module.write_text(
        f'import {{ readState }} from "{(FOLDER / "state.mjs").as_uri()}";\n'
        f'import {{ fields as tokens }} from "{(FOLDER / "tokens.mjs").as_uri()}";\n'
        f'import {{ fields as neighbours }} from "{(FOLDER / "neighbours.mjs").as_uri()}";\n'
        "const all = { tokens, neighbours };\n"
        "export const read = (name, state) =>\n"
        "  readState({ get: (key) => state[key] }, all[name]);\n"
    )
    odd = [
        *(("tokens", "text", x) for x in [None, 5, ["a"], "x" * 2001]),
        *(("tokens", "n_merges", x) for x in [None, "1", -1, 0.5, 8193, True]),
        *(("tokens", "merges", x) for x in [None, 5, [[97]], [[97, 256]], [[97, 97]] * 2]),
        *(("neighbours", "word", x) for x in [None, 5, "", "x" * 41]),
        *(("neighbours", "width", x) for x in [None, 0, 101, 1.5]),
    ]
    firsts = {
        name: json.loads(json.dumps(explore(name).state)) for name in ("tokens", "neighbours")
    }
    calls = [
        ("read", [name, {**firsts[name], k: x, "initial": firsts[name]}]) for name, k, x in odd
    ]
    assert javascript(module, calls) == [firsts[name] for name, _, _ in odd]


# ---- in a browser -------------------------------------------------------------------------

TEXT = "The sea,\tthe sea!\nNaïve: €5 — ก็ 👩‍👧 " + data.declaration("ar")[:200]


@pytest.fixture(scope="module")
def address(assets, trained, tmp_path_factory) -> Iterator[str]:
    """A page with both explorers and the book's own script and style."""
    table = np.random.default_rng(0).normal(size=(40, 12)) * 0.7 ** np.arange(12)
    words = ["king", "queen", *(f"word{i}" for i in range(38))]
    explorers = [
        explore("tokens", text=TEXT, merges=trained.merges, n_merges=150),
        explore("neighbours", words=words, vectors=table, width=5),
    ]
    with served_pages(tmp_path_factory.mktemp("page"), {"page": explorers}) as at:
        yield f"{at}/page.html"


@pytest.fixture(scope="module")
def browser():
    with chromium() as started:
        yield started


@pytest.fixture
def page(browser, address):
    with opened(browser, address) as page:
        yield page


def tokens_shown(explorer: Explorer) -> list[str]:
    return explorer.box.locator("[role=option]").all_inner_texts()


def test_the_shown_tokens_are_the_texts_tokens_however_they_were_reached(page, trained):
    explorer = Explorer(page, 0)
    slider = explorer.box.locator("input[type=range]")
    typed = explorer.box.locator("textarea")
    texts = [TEXT, TEXT[:20] + "new " + TEXT[20:], "é" + TEXT[1:], "è" + TEXT[1:], "", "aaaa"]
    for text in texts:
        typed.fill(text)
        for n in (150, 151, 900, 0, 40, 7):
            slider.fill(str(n))
            next_frames(page)
            tokens = trained.with_merges(n)
            wanted = [readable(tokens.token_bytes(i)) for i in tokens.encode(text)]
            assert [shown.strip() for shown in tokens_shown(explorer)] == wanted, (text, n)


def test_typing_leaves_the_tokens_before_and_behind_as_they_are(page):
    explorer = Explorer(page, 0)
    tokens = explorer.box.locator("[role=option]")
    for token in (tokens.first, tokens.last):
        token.evaluate("(it) => { it.dataset.seen = 'yes'; }")
    explorer.box.locator("textarea").fill(TEXT[:30] + "something" + TEXT[30:])
    next_frames(page)
    assert [it.get_attribute("data-seen") for it in (tokens.first, tokens.last)] == ["yes", "yes"]


# Select from one node to another and copy; return the plain text on the clipboard.
COPY = """(list, from = list, to = list) => {
    getSelection().setBaseAndExtent(from, 0, to, to.childNodes.length || to.length);
    const clipboardData = new DataTransfer();
    list.dispatchEvent(new ClipboardEvent("copy", {clipboardData, bubbles: true}));
    return clipboardData.getData("text/plain");
}"""


def test_what_is_copied_is_the_text_itself(page):
    explorer = Explorer(page, 0)
    listed, typed = explorer.box.locator("[role=listbox]"), explorer.box.locator("textarea")
    for n in ("150", "0"):
        explorer.box.locator("input[type=range]").fill(n)
        # The first bytes of é and è are one token, which stands for another character.
        for text in (TEXT, "é" + TEXT, "è" + TEXT, "€\n  \n" + TEXT):
            typed.fill(text)
            next_frames(page)
            assert listed.evaluate(f"(list) => ({COPY})(list)") == text
    signs = "[...list.querySelectorAll('.attn-sign')].map((it) => it.firstChild)"
    copy_sign = f"(list) => {{ const [a, b] = {signs}.slice(4, 6); return ({COPY})(list, a, b); }}"
    assert listed.evaluate(copy_sign) == "  "
    assert listed.evaluate(f"(list) => ({COPY})(list, {signs}[4], {signs}[4])") == " "


def places(page, text: str, n: int) -> tuple[str, dict[str, int]]:
    """The direction of the list of tokens, and where each of them stands from the left."""
    explorer = Explorer(page, 0)
    listed = explorer.box.locator("[role=listbox]")
    explorer.box.locator("textarea").fill(text)
    explorer.box.locator("input[type=range]").fill(str(n))
    next_frames(page)
    assert listed.evaluate(f"(list) => ({COPY})(list)") == text
    found = listed.locator("[role=option]").evaluate_all(
        "(all) => all.map((it) => [it.textContent, it.offsetLeft])"
    )
    return listed.get_attribute("dir"), dict(found)


def test_words_and_numbers_keep_their_order_in_a_text_from_right_to_left(page):
    direction, left = places(page, "س abc (de) 12", 0)
    assert direction == "rtl"
    assert left["a"] < left["b"] < left["c"] and left["d"] < left["e"] and left["1"] < left["2"]
    assert left["a"] > left["("] > left["e"] and left["d"] > left[")"] > left["2"]


def test_a_word_from_right_to_left_keeps_its_order_in_a_text_from_left_to_right(page):
    direction, left = places(page, "a (שלום) b", 900)
    assert direction == "ltr"
    hebrew = [x for shown, x in left.items() if regex.search(r"\p{Hebrew}", shown)]
    assert len(hebrew) >= 2 and hebrew == sorted(hebrew, reverse=True)
    bracket = next(x for shown, x in left.items() if "(" in shown)
    assert left["a"] < bracket < min(hebrew) and max(hebrew) < left[")"]


def test_what_stands_below_a_short_text_stays_while_merges_join_it(page):
    explorer = Explorer(page, 0)
    explorer.box.locator("textarea").fill("To be, or not to be, that is the question.")
    below = []
    for n in ("0", "150", "900"):
        explorer.box.locator("input[type=range]").fill(n)
        next_frames(page)
        below.append(explorer.box.locator(".attn-counts").bounding_box()["y"])
    assert len(set(below)) == 1


def test_a_word_longer_than_its_box_moves_nothing_aside(page):
    explorer = Explorer(page, 1)
    explorer.box.locator("input[name=word]").fill("w" * 300)
    next_frames(page)
    right = [
        explorer.box.locator(name).bounding_box() for name in ("input[name=word]", ".attn-problem")
    ]
    slider = explorer.sliders()[0].bounding_box()
    assert all(box["x"] + box["width"] < slider["x"] for box in right)


def test_the_list_of_tokens_is_one_stop_and_the_arrow_keys_go_through_it(page):
    explorer = Explorer(page, 0)
    box = explorer.box.locator("[role=listbox]")
    box.focus()
    chosen = explorer.box.locator("[role=option][aria-selected=true]")
    seen = []
    for key in ("Home", "ArrowRight", "ArrowRight", "ArrowDown", "ArrowUp", "ArrowLeft", "End"):
        box.press(key)
        assert chosen.count() == 1
        assert box.get_attribute("aria-activedescendant") == chosen.get_attribute("id")
        label = chosen.get_attribute("aria-label")
        assert explorer.box.locator(".attn-token-detail").inner_text() == label
        seen.append(int(label.split()[1]))
    count = len(tokens_shown(explorer))
    home, second, third, below, above, before, end = seen
    assert (home, second, third, end) == (1, 2, 3, count)
    assert below > third + 5 and above < below and before == above - 1
    assert explorer.box.locator("[tabindex='0']").count() == 1


def test_pointing_at_a_token_tells_its_id_its_bytes_and_the_merge_that_made_it(page, trained):
    explorer = Explorer(page, 0)
    n, tokens = 150, trained.with_merges(150).encode(TEXT)
    place = next(i for i, token in enumerate(tokens) if 256 <= token < 256 + n)
    explorer.box.locator("[role=option]").nth(place).hover()
    left, right = (readable(trained.token_bytes(i)) for i in trained.merges[tokens[place] - 256])
    data = trained.token_bytes(tokens[place])
    assert explorer.box.locator(".attn-token-detail").inner_text() == (
        f"token {place + 1} of {len(tokens)}: “{readable(data)}”, id {tokens[place]}, "
        f"bytes {data.hex(' ').upper()}, merge {tokens[place] - 255}: “{left}” + “{right}”"
    )


def test_the_buttons_step_by_one_and_to_the_merges_that_change_this_text(page, trained):
    explorer = Explorer(page, 0)
    slider = explorer.box.locator("input[type=range]")

    def press(name: str) -> int:
        """Press a button; return the merge that this leads to."""
        explorer.box.locator(f"button[name={name}]").press("Enter")
        next_frames(page)
        return int(slider.input_value())

    counts = [len(trained.with_merges(n).encode(TEXT)) for n in range(901)]
    joining = [n for n in range(1, 901) if counts[n] < counts[n - 1]]
    assert press("next") == 151
    assert [press("previous"), press("previous")] == [150, 149]
    at = 149
    for _ in range(3):
        wanted = next(n for n in joining if n > at)
        at = press("next-here")
        assert at == wanted
        made_here = explorer.box.locator(".attn-token-new").count()
        assert made_here == counts[wanted - 1] - counts[wanted]
    assert press("previous-here") == max(n for n in joining if n < at)
    slider.press("End")
    next_frames(page)
    assert explorer.box.locator("button[name=next]").get_attribute("aria-disabled") == "true"
    assert [press("next"), press("next-here")] == [900, 900]
    slider.press("Home")
    assert [press("previous"), press("previous-here")] == [0, 0]


def test_a_text_that_is_too_long_is_cut_and_that_is_said(page):
    explorer = Explorer(page, 0)
    most = LIMITS["text_length"][1]
    typed = explorer.box.locator("textarea")
    typed.fill("😀" * (most + 5))
    next_frames(page)
    assert typed.input_value() == "😀" * most
    note = explorer.box.locator(".attn-text-box .attn-note")
    assert note.inner_text() == "Only the first 2,000 characters were kept; 5 did not fit."
    typed.fill("a")
    next_frames(page)
    assert note.inner_text() == "1 of 2,000 characters; any script, any sign"


def test_a_word_that_is_none_of_them_changes_nothing_and_is_answered(page):
    explorer = Explorer(page, 1)
    box, note = explorer.box.locator("input[name=word]"), explorer.box.locator(".attn-problem")
    first = explorer.look()
    box.fill("emperor")
    assert note.inner_text() == "“emperor” is none of the 40 words, such as “king” or “word37”."
    assert box.get_attribute("aria-invalid") == "true"
    assert explorer.look().words == first.words
    box.fill(" Queen ")
    assert "“queen” in the first 5" in explorer.look().words
    assert note.inner_text() == "" and box.get_attribute("aria-invalid") == "false"
    box.press("Tab")
    assert box.input_value() == "queen"
    box.fill(" ")
    box.press("Tab")
    assert note.inner_text() == "Type one of the 40 words, such as “king” or “word37”."
    box.fill("emperor")
    explorer.reset()
    assert box.input_value() == "king" and note.inner_text() == ""
    neighbour = explorer.box.locator(".attn-word").first
    name = neighbour.inner_text()
    neighbour.click()
    assert f"“{name}” in the first 5" in explorer.look().words
    assert box.input_value() == name


def test_a_link_beyond_what_there_is_shows_the_nearest_that_is(page, address):
    again = page.context.new_page()
    again.goto(address + "#tokens:n=8000&neighbours:word=emperor;d=100")
    again.wait_for_selector(".attn-box.attn-neighbours")
    assert Explorer(again, 0).look().words.startswith("Merge 900 of 900:")
    assert Explorer(again, 1).look().words.startswith("“king” in the first 12 of 12")
    again.close()


@pytest.mark.parametrize("place", [0, 1])
def test_every_control_counts_and_the_address_brings_all_back(page, place):
    assert_the_address_brings_all_back(page, place)


@pytest.mark.parametrize("place", [0, 1])
def test_sliders_and_curves_move_the_picture_and_the_words(page, place):
    explorer = Explorer(page, place)
    for slider in explorer.sliders():
        keys = ("ArrowRight", "Home", "End")
        explorer.assert_moves(slider, *[lambda k=key, s=slider: s.press(k) for key in keys])
    [curve] = explorer.movable_pictures()
    explorer.assert_picture_moves(curve, 0.8, 0.3)
    for box in explorer.box.locator("input[list]").all():
        before = explorer.look()
        box.fill(box.evaluate(OTHER_WORD))
        assert not explorer.look().still(before)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1000, 390])
def test_axe_finds_nothing_and_nothing_is_wider_than_the_window(page, width, theme):
    page.set_viewport_size({"width": width, "height": 900})
    page.evaluate(f"() => {{ document.documentElement.dataset.theme = '{theme}'; }}")
    next_frames(page)
    for typed in ("", "語" * 400, "x" * 2000, TEXT):
        Explorer(page, 0).box.locator("textarea").fill(typed)
        next_frames(page)
        assert overflowing(page) == []
    assert violations(page, ("moderate", "serious", "critical")) == []
