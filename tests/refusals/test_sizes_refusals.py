"""Sizes that cannot be are refused, by plain errors that name the letters and the values.

These tests run without the jaxtyping hook, as users do: the hook would raise its own errors first.
"""

import re

import numpy as np
import pytest

from attnlib import PUBLISHED, AttentionSizes, LatentAttentionSizes
from attnlib.sizes import (
    ExpertSizes,
    LinearScaling,
    Llama3Scaling,
    ModelSizes,
    RotarySizes,
    YarnScaling,
)

ATTENTION = {"n_query_heads": 6, "n_kv_heads": 3, "head_dim": 4, "value_dim": 5}
LATENT = {
    "n_query_heads": 2,
    "query_latent": 3,
    "kv_latent": 5,
    "nope_dim": 7,
    "rope_dim": 4,
    "value_dim": 11,
}
EXPERTS = {"n_routed": 5, "n_chosen": 2, "inner_width": 3}
YARN = {
    "factor": 40.0,
    "original_length": 4096,
    "beta_fast": 32.0,
    "beta_slow": 1.0,
    "mscale": 0.7,
}
LLAMA_3 = {
    "factor": 8.0,
    "low_frequency_factor": 1.0,
    "high_frequency_factor": 4.0,
    "original_length": 8192,
}
MODEL = {
    "name": "a small model",
    "source": "made up for a test",
    "n_layers": 3,
    "width": 7,
    "attention": AttentionSizes(**ATTENTION),
    "feed_forward_width": 11,
    "gated": False,
    "activation": "gelu",
    "vocabulary": 13,
    "tied_embeddings": True,
    "norm": "rms",
    "norm_placement": "pre",
    "norm_epsilon": 1e-5,
    "context": 17,
}


def refuses(kind: type[Exception], message: str):
    return pytest.raises(kind, match=re.escape(message))


def test_the_sizes_of_these_tests_are_not_refused():
    for kind, sizes in (
        (AttentionSizes, ATTENTION),
        (LatentAttentionSizes, LATENT),
        (ExpertSizes, EXPERTS),
        (YarnScaling, YARN),
        (Llama3Scaling, LLAMA_3),
        (ModelSizes, MODEL),
    ):
        kind(**sizes)


@pytest.mark.parametrize("g", [4, 5, 12])
def test_kv_heads_that_do_not_divide_the_query_heads_are_refused(g):
    with refuses(ValueError, f"(g divides h), got h=6 and g={g}"):
        AttentionSizes(**ATTENTION | {"n_kv_heads": g})


def test_heads_and_layers_that_changed_places_are_refused():
    # GPT-2 has 12 heads in 12 layers; in a model of 7 layers with 2 key/value heads it shows
    with refuses(ValueError, "got h=7 and g=2"):
        AttentionSizes(**ATTENTION | {"n_query_heads": 7, "n_kv_heads": 2})


@pytest.mark.parametrize(
    "name,letter",
    [("n_query_heads", "h"), ("n_kv_heads", "g"), ("head_dim", "d"), ("value_dim", "e")],
)
def test_what_is_no_count_is_refused_by_name_and_letter(name, letter):
    for value in (0, -6):
        with refuses(ValueError, f"{name} ({letter}) must be at least 1, got {value}"):
            AttentionSizes(**ATTENTION | {name: value})
    for value in (6.0, 85.33, "6", True, None, np.float64(6)):
        with refuses(TypeError, f"{name} ({letter}) must be a whole number, got {value!r}"):
            AttentionSizes(**ATTENTION | {name: value})


@pytest.mark.parametrize("name", LATENT)
def test_widths_of_latent_attention_are_counts(name):
    for value in (0, 2.5):
        with pytest.raises((TypeError, ValueError), match=rf"{name} \(\w\) must be"):
            LatentAttentionSizes(**LATENT | {name: value})


def test_sizes_are_keywords_only():
    with pytest.raises(TypeError, match="positional argument"):
        AttentionSizes(6, 3, 4, 5)
    with pytest.raises(TypeError, match="unexpected keyword argument 'n_groups'"):
        AttentionSizes(**ATTENTION, n_groups=2)


@pytest.mark.parametrize("sizes", [AttentionSizes(**ATTENTION), LatentAttentionSizes(**LATENT)])
def test_parameters_are_counted_on_a_width_that_is_a_count(sizes):
    for width in (0, -7):
        with refuses(ValueError, f"width (m) must be at least 1, got {width}"):
            sizes.n_parameters(width)
    with refuses(TypeError, "width (m) must be a whole number, got 7.5"):
        sizes.n_parameters(7.5)
    assert sizes.n_parameters(np.int8(100)) == sizes.n_parameters(100) > 127


def test_whole_numbers_of_numpy_become_exact_ones():
    # 92,682² is beyond int32, in which NumPy would wrap round
    wide = np.int32(92_682)
    sizes = ModelSizes(**MODEL | {"vocabulary": wide, "width": wide})
    assert type(sizes.vocabulary) is int
    assert sizes.n_embedding_parameters == 92_682**2


def test_flags_are_true_or_false():
    for name in ("gated", "tied_embeddings", "causal", "pooler", "learned_positions"):
        with refuses(TypeError, f"{name} must be True or False, got 1"):
            ModelSizes(**MODEL | {name: 1})
    with refuses(TypeError, "biases must be True or False, got 'no'"):
        AttentionSizes(**ATTENTION, biases="no")


def test_a_model_has_a_name_and_a_source():
    for name in ("name", "source"):
        with refuses(ValueError, f"{name} must not be empty"):
            ModelSizes(**MODEL | {name: ""})
        with refuses(TypeError, f"{name} must be a text, got 7"):
            ModelSizes(**MODEL | {name: 7})


@pytest.mark.parametrize(
    "name", ["n_layers", "width", "feed_forward_width", "vocabulary", "context", "window"]
)
def test_counts_of_a_model_are_at_least_one(name):
    with pytest.raises(ValueError, match=rf"{name}.* must be at least 1, got 0"):
        ModelSizes(**MODEL | {name: 0})


def test_there_may_be_no_segments_and_no_shared_experts_but_not_fewer():
    assert ModelSizes(**MODEL | {"n_segments": 0}).n_segments == 0
    with refuses(ValueError, "n_segments must be at least 0, got -1"):
        ModelSizes(**MODEL | {"n_segments": -1})
    with refuses(ValueError, "n_shared must be at least 0, got -1"):
        ExpertSizes(**EXPERTS, n_shared=-1)


def test_parts_of_a_model_are_those_of_this_module():
    with refuses(TypeError, "attention must be AttentionSizes or LatentAttentionSizes, got {"):
        ModelSizes(**MODEL | {"attention": ATTENTION})
    with refuses(TypeError, "experts must be ExpertSizes, got 5"):
        ModelSizes(**MODEL | {"experts": 5})
    with refuses(TypeError, "rotary must be RotarySizes, got 10000.0"):
        ModelSizes(**MODEL | {"rotary": 1e4})
    with refuses(TypeError, "scaling must be LinearScaling or Llama3Scaling or YarnScaling, got"):
        RotarySizes(base=1e4, scaling="yarn")


def test_norms_and_activations_are_known_ones():
    with refuses(ValueError, "norm must be one of 'rms', 'layer'; got 'batch'"):
        ModelSizes(**MODEL | {"norm": "batch"})
    known = "'relu', 'silu', 'gelu', 'gelu-tanh'"
    with refuses(ValueError, f"activation must be one of {known}; got 'relu6'"):
        ModelSizes(**MODEL | {"activation": "relu6"})
    with refuses(ValueError, "norm_placement must be one of 'pre', 'post', 'peri'; got 'sandwich'"):
        ModelSizes(**MODEL | {"norm_placement": "sandwich"})


def test_positions_are_sinusoidal_or_learned_and_come_in_pairs():
    sines = {"sinusoidal_positions": True}
    with refuses(ValueError, "sinusoidal or learned, got both"):
        ModelSizes(**MODEL | sines | {"width": 8, "learned_positions": True})
    with refuses(ValueError, "so m must be even, got m=9"):
        ModelSizes(**MODEL | sines | {"width": 9})


def test_an_encoder_stands_beside_causal_layers_without_experts():
    with refuses(ValueError, "n_encoder_layers must be at least 0, got -1"):
        ModelSizes(**MODEL | {"n_encoder_layers": -1})
    with refuses(ValueError, "with n_encoder_layers=2 has causal=True, got causal=False"):
        ModelSizes(**MODEL | {"n_encoder_layers": 2, "causal": False})
    with refuses(ValueError, "with n_encoder_layers=2 has experts=None, got experts=ExpertSizes"):
        ModelSizes(**MODEL | {"n_encoder_layers": 2, "experts": ExpertSizes(**EXPERTS)})


@pytest.mark.parametrize(
    "window,pattern",
    [
        (4, ()),
        (4, (False, False)),
        (4, (False, False, False, True)),  # there are three layers
        (None, (True,)),
        (None, (False, True)),
    ],
)
def test_a_window_and_its_pattern_go_together(window, pattern):
    with refuses(ValueError, f"got window={window} and window_pattern={pattern}"):
        ModelSizes(**MODEL | {"window": window, "window_pattern": pattern})


def test_a_base_for_layers_with_a_window_needs_such_layers():
    rotary = {"rotary": RotarySizes(base=1e6, window_base=1e4)}
    even = {"attention": AttentionSizes(**ATTENTION)}
    with refuses(ValueError, "there is none, got window_base=10000.0"):
        ModelSizes(**MODEL | even | rotary)
    ModelSizes(**MODEL | even | rotary | {"window": 4, "window_pattern": (True,)})


@pytest.mark.parametrize("pattern", [[True], (1, 0), "TF", None])
def test_a_pattern_is_a_tuple_of_flags(pattern):
    with refuses(TypeError, f"window_pattern must be a tuple of True and False, got {pattern!r}"):
        ModelSizes(**MODEL | {"window": 4, "window_pattern": pattern})


def test_more_experts_than_there_are_cannot_be_chosen():
    with refuses(ValueError, "n_chosen must be at most n_routed, got n_chosen=6 and n_routed=5"):
        ExpertSizes(**EXPERTS | {"n_chosen": 6})


def test_more_dense_layers_than_layers_are_refused():
    experts = ExpertSizes(**EXPERTS, n_dense_layers=4)
    with refuses(ValueError, "got n_dense_layers=4 and n_layers=3"):
        ModelSizes(**MODEL | {"experts": experts})


def test_an_odd_rotary_width_is_refused():
    rotary = RotarySizes(base=1e4)
    odd = AttentionSizes(**ATTENTION | {"head_dim": 5})
    with refuses(ValueError, "turn pairs of coordinates, so their width must be even, got 5"):
        ModelSizes(**MODEL | {"attention": odd, "rotary": rotary})
    # only the rotary part must be even: here d = 7 + 4 is odd
    latent = LatentAttentionSizes(**LATENT)
    ModelSizes(**MODEL | {"attention": latent, "rotary": rotary})
    with refuses(ValueError, "must be even, got 3"):
        latent = LatentAttentionSizes(**LATENT | {"rope_dim": 3})
        ModelSizes(**MODEL | {"attention": latent, "rotary": rotary})


def test_a_base_that_is_no_positive_number_is_refused():
    for base in (0.0, -1e4):
        with refuses(ValueError, f"base must be above 0, got {base}"):
            RotarySizes(base=base)
    for base in (float("inf"), float("nan")):
        with refuses(ValueError, f"base must be finite, got {base}"):
            RotarySizes(base=base)
    with refuses(ValueError, "norm_epsilon must be finite, got inf"):
        ModelSizes(**MODEL | {"norm_epsilon": 10**400})


def test_a_base_of_one_or_less_is_refused():
    with refuses(ValueError, "base of rotary positions must be above 1, got 1.0"):
        RotarySizes(base=1)
    with refuses(ValueError, "window_base of rotary positions must be above 1, got 0.5"):
        RotarySizes(base=1e4, window_base=0.5)
    for base in ("10000", True, None):
        with refuses(TypeError, f"base must be a number, got {base!r}"):
            RotarySizes(base=base)


def test_scalings_have_positive_factors_and_a_range():
    with refuses(ValueError, "factor must be above 0, got 0"):
        LinearScaling(factor=0)
    for kind, sizes in ((LinearScaling, {}), (Llama3Scaling, LLAMA_3), (YarnScaling, YARN)):
        with refuses(ValueError, "factor must be at least 1, since texts get longer, got 0.5"):
            kind(**sizes | {"factor": 0.5})
    with refuses(ValueError, "low_frequency_factor must be below high_frequency_factor, got 4.0 "):
        Llama3Scaling(**LLAMA_3 | {"low_frequency_factor": 4.0})
    with refuses(ValueError, "beta_slow must be below beta_fast, got 32.0 and 32.0"):
        YarnScaling(**YARN | {"beta_slow": 32.0})
    with refuses(TypeError, "original_length must be a whole number, got 4096.5"):
        YarnScaling(**YARN | {"original_length": 4096.5})


def test_a_name_that_is_not_published_is_refused_with_those_that_are():
    with pytest.raises(KeyError, match="there is no model 'llama'; those that exist: llama-2-7b"):
        PUBLISHED["llama"]
