"""Faults in the training of the book's language model, and in what is measured of it."""

from fault import fault

TRAIN = "book/train_shakespeare.py"
T_MODEL = "tests/test_shakespeare_model.py"

_MEASURED = 'ids = [ord("\\n"), *tokenizer.encode(text)]'
_STARTS = "torch.randint(len(ids) - length + 1, (size,), generator=generator)"

FAULTS = (
    fault(
        "shakespeare: what is to be left out is trained on",
        TRAIN,
        T_MODEL,
        ("first.append(play[:cut])", "first.append(play)"),
    ),
    fault(
        "shakespeare: the held-out plays are trained on",
        TRAIN,
        T_MODEL,
        ('texts = dict(plays("train"))', "texts = dict(plays())"),
    ),
    fault(
        "shakespeare: the end of the text is never read",
        TRAIN,
        T_MODEL,
        (_STARTS, _STARTS.replace(" + 1,", ",")),
    ),
    fault(
        "shakespeare: a text's first token is not predicted, though its bytes count",
        TRAIN,
        T_MODEL,
        (_MEASURED, "ids = tokenizer.encode(text)"),
    ),
    fault(
        "shakespeare: what is said instead is the token itself, not the next",
        TRAIN,
        T_MODEL,
        (
            "return cross_entropy(model(inputs), targets)",
            "return cross_entropy(model(inputs), inputs)",
        ),
    ),
    fault(
        "shakespeare: another seed than that on record",
        TRAIN,
        T_MODEL,
        ("torch.Generator().manual_seed(SEED)", "torch.Generator().manual_seed(SEED + 1)"),
    ),
    fault(
        "shakespeare: a loss that is no number counts as on record",
        "book/losses.py",
        T_MODEL,
        ("if largest <= TOLERANCE:", "if not largest > TOLERANCE:"),
    ),
    fault(
        "shakespeare: bits are per token",
        TRAIN,
        T_MODEL,
        ("len(text.encode()), progress", "len(ids), progress"),
    ),
)
