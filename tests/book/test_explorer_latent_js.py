"""The latent explorer computes in JavaScript what Python computes; Node runs its modules."""

from itertools import product

from attnlib.explore import limits
from attnlib.explore.bundle import FOLDER
from attnlib.explore.widgets import EXPLORERS


def states():
    """Every latent and rope width at the ends, with the other options in turn."""
    some = product(limits.KV_LATENT, (0, 34, 128), (1, 131_072))
    for i, (kv_latent, rope_dim, n_tokens) in enumerate(some):
        yield {
            "kv_latent": kv_latent,
            "rope_dim": rope_dim,
            "n_tokens": n_tokens,
            "n_heads": 32 * 2 ** (i % 4),
            "nope_dim": limits.LATENT_HEAD_DIM[i % 5],
            "value_dim": limits.LATENT_HEAD_DIM[i // 5 % 5],
            "bytes_per_number": limits.COST_BYTES[i % 3],
            "model": limits.LATENT_MODELS[i % 2],
        }


# And those in which reading a latent costs what reading keys and values does.
STATES = [
    *states(),
    *(
        {**state, "nope_dim": 192, "value_dim": 64, "kv_latent": 128}
        for state in states()
        if state["kv_latent"] == 128
    ),
]


def test_facts_are_pythons(javascript):
    found = javascript(FOLDER / "latent-forms.mjs", [("facts", [state]) for state in STATES])
    for state, facts in zip(STATES, found, strict=True):
        # to the last digit: all but one division is of whole numbers below 2⁵³
        assert facts == EXPLORERS["latent-forms"](**state).facts(), state
        assert list(facts["forms"]) == ["multi-head", "grouped", *list(facts["forms"])[2:]]


def test_the_picture_in_words_is_pythons(javascript):
    found = javascript(FOLDER / "latent-forms.mjs", [("describe", [state]) for state in STATES])
    for state, text in zip(STATES, found, strict=True):
        assert text == EXPLORERS["latent-forms"](**state).describe()


def test_a_link_brings_a_state_back_and_a_broken_one_nothing(linked):
    initial = EXPLORERS["latent-forms"]().initial
    state = STATES[0]
    [text] = linked("latent-forms", [("write", [state, initial])])
    assert linked("latent-forms", [("read", [text, initial])]) == [
        {key: value for key, value in state.items() if value != initial[key]}
    ]
    broken = "c=100;r=63;h=48;n=0;e=1e3;N=0;bytes=3;model=llama-3-70b"
    assert linked("latent-forms", [("read", [broken, initial])]) == [{}]
