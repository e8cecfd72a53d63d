"""Faults in number words, their translator's training, and the explorer of alignments."""

from fault import fault

WORDS = "attnlib/number_words.py"
ROWS = "attnlib/token_rows.py"
ALIGNMENT = "attnlib/explore/alignment.py"
PACKED = "attnlib/explore/packed_maps.py"
ALIGNMENT_JS = "attnlib/explore/alignment.mjs"
PACKED_JS = "attnlib/explore/packed-maps.mjs"
TRAIN = "book/train_number_words.py"
MAKE = "book/make_number_words.py"

T_WORDS = "tests/test_number_words.py"
T_DATA = "tests/test_number_words_data.py"
T_PYTHON = "tests/test_explore_alignment.py"
T_JAVASCRIPT = "tests/book/test_explorer_alignment_js.py"

FAULTS = (
    fault(
        "number words: hyphens stay in the English words",
        WORDS,
        T_WORDS,
        ('.replace("-", " ")', ""),
    ),
    fault(
        "number words: the decoder's row has no end",
        WORDS,
        T_WORDS,
        ("return [self.begin, *pieces, self.end]", "return [self.begin, *pieces]"),
        bug="B93",
    ),
    fault(
        "number words: padding counts as a source",
        ROWS,
        T_WORDS,
        (
            "torch.arange(t) < torch.tensor([[len(row)] for row in rows])",
            "torch.ones(len(rows), t, dtype=torch.bool)",
        ),
    ),
    fault(
        "number words: the loss does not shift the targets' mask",
        WORDS,
        T_WORDS,
        ("is_target=batch.is_token[:, 1:])", "is_target=batch.is_token[:, :-1])"),
        bug="B93",
    ),
    fault(
        "number words: every pass has the same order",
        WORDS,
        T_WORDS,
        (
            "order = torch.randperm(n_pairs, generator=generator)",
            "order = torch.arange(n_pairs).flip(0)",
        ),
    ),
    fault(
        "number words: a batch cuts off its longest row",
        WORDS,
        T_WORDS,
        (
            "t = int(whole.is_token[rows].sum(1).max())",
            "t = int(whole.is_token[rows].sum(1).min())",
        ),
    ),
    fault(
        "number words: the accuracy asks for the token that was read",
        WORDS,
        T_WORDS,
        (
            "is_right = logits.argmax(-1) == batch.tokens[:, 1:]",
            "is_right = logits.argmax(-1) == batch.tokens[:, :-1]",
        ),
        bug="B93",
    ),
    fault(
        "number words: dropout acts while the accuracy is measured",
        WORDS,
        T_WORDS,
        (
            "with in_mode(model, False), torch.no_grad():\n        logits",
            "with in_mode(model, True), torch.no_grad():\n        logits",
        ),
        bug="B90",
    ),
    fault(
        "number words: the row of a piece is that of the piece before",
        WORDS,
        T_WORDS,
        ("[tokenizer.begin, *ids[:-1]] for ids in written", "ids for ids in written"),
    ),
    fault(
        "number words: a piece means the word after its own",
        WORDS,
        T_WORDS,
        ("_ENGLISH[1:], strict=False", "_ENGLISH[2:], strict=False"),
    ),
    fault(
        "number words: a loss that is no number counts as on record",
        "book/losses.py",
        T_DATA,
        ("if not math.isfinite(x)", "if x > 1e9"),
    ),
    fault(
        "number words: a held-out number may be trained on",
        MAKE,
        T_DATA,
        ("if n not in held_out and n not in EXAMPLES", "if n not in EXAMPLES"),
    ),
    # --- the explorer -------------------------------------------------------------------------
    fault(
        "alignment: steps back count steps forward",
        ALIGNMENT,
        T_PYTHON,
        ("s < before for before, s", "s > before for before, s"),
    ),
    fault(
        "alignment: the mean over the heads is their sum",
        ALIGNMENT,
        T_PYTHON,
        ("_total(weights) / len(heads)", "_total(weights)"),
    ),
    fault(
        "alignment: targets and sources are packed in each other's place",
        PACKED,
        T_PYTHON,
        (
            '{"targets": n_targets, "sources": n_sources}',
            '{"targets": n_sources, "sources": n_targets}',
        ),
    ),
    fault(
        "alignment: the page shows the first head for the mean",
        ALIGNMENT_JS,
        T_JAVASCRIPT,
        ("sum(heads.map((roots) => weightOf(roots[i]))) / maps.heads", "weightOf(heads[0][i])"),
    ),
    fault(
        "alignment: the page finds no number below the one of a link",
        ALIGNMENT_JS,
        T_JAVASCRIPT,
        ("entry.number <= number) ?? alignments[0]", "entry.number === number) ?? alignments[0]"),
    ),
    fault(
        "alignment: the page takes a head for as tall as it is wide",
        PACKED_JS,
        T_JAVASCRIPT,
        (
            "const count = layers * heads * sizes.targets * sizes.sources;",
            "const count = layers * heads * sizes.targets ** 2;",
        ),
    ),
)
