"""The claims of the chapters about sizes: counted by hand, by other code, and as published.

tests/test_sizes_of_transformers.py holds the counts to models that transformers makes.
"""

import dataclasses
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

import attnlib
from attnlib import PUBLISHED, TRAINED, AttentionSizes, LatentAttentionSizes, positions
from attnlib.sizes import ExpertSizes, LinearScaling, ModelSizes, RotarySizes, YarnScaling

H, G, D, E, M = 6, 3, 4, 5, 7


def attention(**changes):
    return AttentionSizes(
        **({"n_query_heads": H, "n_kv_heads": G, "head_dim": D, "value_dim": E} | changes)
    )


def model(**changes):
    small = {
        "name": "a small model",
        "source": "made up for a test",
        "n_layers": 3,
        "width": M,
        "attention": attention(),
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
    return ModelSizes(**(small | changes))


# --- published totals ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "name,total,says",
    [
        ("llama-2-7b", 6_738_415_616, 7e9),
        ("llama-3-8b", 8_030_261_248, 8e9),
        ("llama-3-70b", 70_553_706_496, 70e9),
        ("llama-3.1-70b", 70_553_706_496, 70e9),
        ("llama-3.2-1b", 1_235_814_400, 1.23e9),
        ("smollm2-135m", 134_515_008, 135e6),
        ("gemma-3-27b", 27_009_002_240, 27e9),
        ("gemma-3-270m", 268_098_176, 270e6),
        ("deepseek-67b", 67_425_001_472, 67e9),
        ("deepseek-v2", 235_741_434_880, 236e9),
        ("deepseek-v3", 671_026_404_352, 671e9),
        ("transformer-base", 63_045_632, 65e6),
        ("transformer-big", 214_171_648, 213e6),
        ("gpt-2", 124_439_808, 124e6),
        ("gpt-2-xl", 1_557_611_200, 1558e6),
        ("gpt-3", 174_604_259_328, 175e9),
        ("bert-base", 109_482_240, 110e6),
        ("minilm-l6", 22_713_216, 22.7e6),
    ],
)
def test_a_model_has_as_many_parameters_as_is_published(name, total, says):
    # the digits by hand, and what its authors call it: Llama 2's 6.74 B is the roundest name
    assert PUBLISHED[name].n_parameters == total
    assert abs(total / says - 1) < 0.04


def test_every_published_model_is_in_that_list():
    test = test_a_model_has_as_many_parameters_as_is_published
    listed = [case[0] for mark in test.pytestmark for case in mark.args[1]]
    assert listed == list(PUBLISHED)


@pytest.mark.parametrize("name", PUBLISHED)
def test_every_size_says_where_it_can_be_read(name):
    assert re.search(r"arXiv:\d{4}\.\d{5}|\w/\w|Radford", PUBLISHED[name].source)
    assert PUBLISHED[name].name


def test_published_sizes_cannot_be_changed():
    with pytest.raises(TypeError, match="does not support item assignment"):
        PUBLISHED["gpt-2"] = PUBLISHED["bert-base"]
    with pytest.raises(dataclasses.FrozenInstanceError):
        PUBLISHED["gpt-2"].n_layers = 13
    with pytest.raises(dataclasses.FrozenInstanceError):
        PUBLISHED["gpt-2"].attention.n_kv_heads = 1


def test_an_unknown_model_is_refused_with_those_that_exist():
    with pytest.raises(KeyError, match="no model 'gpt-5'; those that exist: llama-2-7b, llama"):
        PUBLISHED["gpt-5"]
    assert PUBLISHED.get("gpt-5") is None
    assert "gpt-5" not in PUBLISHED


# --- by hand ------------------------------------------------------------------------------


def test_the_embeddings_of_the_book_have_the_sizes_that_it_names():
    llama, gemma = PUBLISHED["llama-3-70b"], PUBLISHED["gemma-3-27b"]
    assert llama.n_embedding_parameters == 2 * 128_256 * 8192
    assert llama.n_non_embedding_parameters == 68_452_360_192
    # the report of Gemma 3 gives 25,600 M without the embedding
    assert gemma.n_embedding_parameters == 262_144 * 5376 == 1_409_286_144
    assert gemma.n_non_embedding_parameters == 25_599_716_096
    assert PUBLISHED["gemma-3-270m"].n_embedding_parameters == 167_772_160
    assert PUBLISHED["smollm2-135m"].n_embedding_parameters == 49_152 * 576


def test_a_layer_of_llama_3_70b_by_hand():
    llama = PUBLISHED["llama-3-70b"]
    assert llama.attention.queries_per_kv_head == 8
    queries, keys, values, out = 8192 * 8192, 8192 * 1024, 8192 * 1024, 8192 * 8192
    assert llama.n_attention_parameters_per_layer == queries + keys + values + out
    assert llama.n_feed_forward_parameters_per_layer == 3 * 8192 * 28_672
    assert llama.n_norm_parameters == (2 * 80 + 1) * 8192
    assert llama.attention.score_scale == 128**-0.5


def test_a_heads_width_is_a_number_of_its_own():
    # m/h is 168 in Gemma 3 27B: it scales the scores, and no head is that wide
    gemma = PUBLISHED["gemma-3-27b"]
    assert gemma.width // gemma.attention.n_query_heads == 168
    assert gemma.attention.head_dim == 128
    assert gemma.attention.score_scale == 168**-0.5
    assert gemma.n_attention_parameters_per_layer == 5376 * 128 * (32 + 16 + 16 + 32) + 2 * 128
    small = PUBLISHED["gemma-3-270m"]
    assert small.attention.head_dim * small.attention.n_query_heads == 1024 != small.width
    assert small.attention.score_scale == 1 / 16


def test_attention_of_deepseek_v2_by_hand():
    deepseek = PUBLISHED["deepseek-v2"]
    parts = {
        "W_DQ": 5120 * 1536,
        "W_UQ": 1536 * 128 * 192,
        "W_DKV and W_KR": 5120 * 576,
        "W_UK and W_UV": 512 * 128 * 256,
        "W_O": 16_384 * 5120,
        "norms of the latents": 1536 + 512,
    }
    assert deepseek.n_attention_parameters_per_layer == sum(parts.values()) == 149_227_520


def test_experts_of_deepseek_v2_by_hand():
    deepseek = PUBLISHED["deepseek-v2"]
    expert = 3 * 5120 * 1536
    assert deepseek.n_expert_parameters_per_layer == 162 * expert + 160 * 5120
    assert deepseek.n_expert_layers == 59
    assert deepseek.n_active_parameters == deepseek.n_parameters - 59 * 154 * expert
    assert deepseek.n_active_parameters == 21_375_800_320
    # without the embedding, of which a token needs one row
    assert deepseek.n_active_parameters - 102_400 * 5120 == 20_851_512_320


def test_deepseek_v3_has_the_attention_of_v2_and_more_of_the_rest():
    deepseek = PUBLISHED["deepseek-v3"]
    assert deepseek.attention == PUBLISHED["deepseek-v2"].attention
    expert = 3 * 7168 * 2048
    assert deepseek.n_expert_layers == 58
    assert deepseek.n_parameters - deepseek.n_active_parameters == 58 * 248 * expert
    # 36.6 B by the release, which leaves out the embedding
    assert deepseek.n_active_parameters - 129_280 * 7168 == 36_625_603_584
    # (0.1 · ln 40 + 1)²
    assert deepseek.rotary.score_factor == pytest.approx(1.368887945**2, rel=1e-8)


@pytest.mark.parametrize("name", sorted(set(PUBLISHED) - {"deepseek-v2", "deepseek-v3"}))
def test_without_experts_every_parameter_is_active(name):
    assert PUBLISHED[name].n_active_parameters == PUBLISHED[name].n_parameters
    assert PUBLISHED[name].n_expert_parameters_per_layer == PUBLISHED[name].n_expert_layers == 0


def test_the_scale_of_deepseek_v2_counts_both_parts_of_a_head_and_yarn():
    deepseek = PUBLISHED["deepseek-v2"]
    assert deepseek.attention.head_dim == 128 + 64
    assert deepseek.attention.score_scale == 192**-0.5
    # (0.1 · 0.707 · ln 40 + 1)² = 1.260803777²
    assert deepseek.rotary.score_factor == pytest.approx(1.260803777**2, rel=1e-8)
    assert deepseek.score_scale == pytest.approx(1.58963 / 192**0.5, rel=1e-5)


@pytest.mark.parametrize("name", sorted(set(PUBLISHED) - {"deepseek-v2", "deepseek-v3"}))
def test_other_models_scale_by_what_their_attention_says(name):
    assert PUBLISHED[name].score_scale == PUBLISHED[name].attention.score_scale


def test_a_token_of_deepseek_v2_leaves_576_numbers_a_layer():
    attention = PUBLISHED["deepseek-v2"].attention
    assert attention.kv_latent + attention.rope_dim == 576 == 9 * attention.nope_dim // 2


def test_layers_with_a_window_come_five_to_one_and_the_pattern_starts_at_the_first_layer():
    gemma, small = PUBLISHED["gemma-3-27b"], PUBLISHED["gemma-3-270m"]
    assert (gemma.n_window_layers, gemma.n_full_layers) == (52, 10)
    assert (small.n_window_layers, small.n_full_layers) == (15, 3)
    assert [i for i, window in enumerate(gemma.windows) if window is None] == list(range(5, 62, 6))
    assert set(gemma.windows) == {1024, None} and set(small.windows) == {512, None}
    assert gemma.windows[-1] == 1024


@pytest.mark.parametrize("name", sorted(set(PUBLISHED) - {"gemma-3-27b", "gemma-3-270m"}))
def test_other_models_have_no_window(name):
    assert PUBLISHED[name].windows == (None,) * PUBLISHED[name].n_layers
    assert PUBLISHED[name].n_window_layers == 0


def test_positions_are_rotary_learned_or_sinusoidal():
    for name, sizes in PUBLISHED.items():
        kinds = (sizes.rotary is not None, sizes.learned_positions, sizes.sinusoidal_positions)
        assert sum(kinds) == 1, name
        assert sizes.sinusoidal_positions == name.startswith("transformer"), name
    assert PUBLISHED["gpt-2"].n_position_parameters == 1024 * 768
    assert PUBLISHED["bert-base"].n_position_parameters == (512 + 2) * 768
    assert PUBLISHED["llama-3-70b"].n_position_parameters == 0


def test_the_bases_of_rotary_positions():
    bases = {name: s.rotary.base for name, s in PUBLISHED.items() if s.rotary is not None}
    assert bases == {
        "llama-2-7b": 1e4,
        "llama-3-8b": 5e5,
        "llama-3-70b": 5e5,
        "llama-3.1-70b": 5e5,
        "llama-3.2-1b": 5e5,
        "smollm2-135m": 1e5,
        "gemma-3-27b": 1e6,
        "gemma-3-270m": 1e6,
        "deepseek-67b": 1e4,
        "deepseek-v2": 1e4,
        "deepseek-v3": 1e4,
    }
    assert PUBLISHED["gemma-3-27b"].rotary.window_base == 1e4
    assert PUBLISHED["gemma-3-27b"].rotary.scaling == LinearScaling(factor=8.0)
    assert PUBLISHED["gemma-3-270m"].rotary.scaling is None
    assert PUBLISHED["llama-3.1-70b"].rotary.scaling.factor == 8.0
    assert PUBLISHED["llama-3.2-1b"].rotary.scaling.factor == 32.0


def test_scalings_name_the_arguments_of_the_functions_that_do_them():
    frequencies = positions.rotary_frequencies(64, base=5e5)
    llama = dataclasses.asdict(PUBLISHED["llama-3.2-1b"].rotary.scaling)
    assert positions.llama3_frequencies(frequencies, **llama).shape == frequencies.shape
    linear = dataclasses.asdict(PUBLISHED["gemma-3-27b"].rotary.scaling)
    slower = positions.linear_frequencies(frequencies, **linear)
    assert (frequencies / slower).tolist() == pytest.approx([8.0] * 32, rel=1e-15)
    deepseek = PUBLISHED["deepseek-v2"]
    yarn = dataclasses.asdict(deepseek.rotary.scaling)
    factor = positions.yarn_attention_factor(yarn["factor"], yarn.pop("mscale"))
    assert deepseek.rotary.score_factor == pytest.approx(factor**2, rel=1e-15)
    width = deepseek.attention.rope_dim
    assert len(positions.yarn_frequencies(width, base=deepseek.rotary.base, **yarn)) == width // 2


def test_llama_3_and_3_1_of_70b_differ_in_context_only():
    old, new = PUBLISHED["llama-3-70b"], PUBLISHED["llama-3.1-70b"]
    changed = {
        f.name for f in dataclasses.fields(old) if getattr(old, f.name) != getattr(new, f.name)
    }
    assert changed == {"name", "source", "context", "rotary"}
    assert (old.context, new.context) == (8192, 131_072)


def test_sizes_by_letter_are_letters_of_the_table():
    for sizes in PUBLISHED.values():
        assert set(sizes.letters) <= set(attnlib.AXES)
    assert PUBLISHED["llama-3-70b"].letters == {
        "h": 64, "g": 8, "p": 8, "d": 128, "e": 128, "m": 8192, "v": 128_256
    }  # fmt: skip
    deepseek = PUBLISHED["deepseek-v2"].letters
    assert deepseek["d"] == deepseek["n"] + deepseek["r"]
    assert (deepseek["u"], deepseek["c"], deepseek["e"]) == (1536, 512, 128)


# --- a small model, all sizes different ---------------------------------------------------


def test_attention_is_counted_matrix_by_matrix():
    matrices = M * H * D + M * G * D + M * G * E + H * E * M
    assert attention().n_parameters(M) == matrices
    with_biases = attention(biases=True).n_parameters(M)
    assert with_biases == matrices + H * D + G * D + G * E + M
    assert attention(query_key_norm=True).n_parameters(M) == matrices + D + D


def test_latent_attention_is_counted_matrix_by_matrix():
    sizes = LatentAttentionSizes(
        n_query_heads=2, query_latent=3, kv_latent=5, nope_dim=7, rope_dim=4, value_dim=11
    )
    width = 13
    down = width * 3 + width * (5 + 4)
    up = 3 * 2 * (7 + 4) + 5 * 2 * 7 + 5 * 2 * 11
    assert sizes.n_parameters(width) == down + up + 2 * 11 * width + 3 + 5
    assert sizes.head_dim == 11 and sizes.rotary_width == 4


def test_the_scale_is_that_of_the_queries_width():
    assert attention().score_scale == 0.5
    assert attention(scale_width=9).score_scale == pytest.approx(1 / 3, rel=1e-15)


def test_feed_forward_networks_have_two_matrices_or_three_if_gated():
    assert model().n_feed_forward_parameters_per_layer == 2 * M * 11
    assert model(gated=True).n_feed_forward_parameters_per_layer == 3 * M * 11
    biases = model(feed_forward_biases=True).n_feed_forward_parameters_per_layer
    assert biases == 2 * M * 11 + 11 + M
    both = model(gated=True, feed_forward_biases=True).n_feed_forward_parameters_per_layer
    assert both == 3 * M * 11 + 11 + 11 + M


def test_norms_have_one_weight_a_coordinate_or_a_bias_as_well():
    assert model().n_norm_parameters == (3 * 2 + 1) * M
    assert model(norm="layer").n_norm_parameters == 2 * (3 * 2 + 1) * M
    assert model(norm_placement="post").n_norm_parameters == model().n_norm_parameters
    other = model(norm_at_end=False, norm_of_embedding=True, norm_placement="peri")
    assert other.n_norm_parameters == (1 + 3 * 4) * M
    assert model(norm_of_embedding=True).n_norm_parameters == (1 + 3 * 2 + 1) * M


def test_an_encoder_beside_the_decoder_is_counted_with_what_reads_it():
    sizes = model(n_encoder_layers=2, learned_positions=True, norm_of_embedding=True)
    attention, network = sizes.n_attention_parameters_per_layer, 2 * M * 11
    encoder = 2 * (attention + network + 2 * M) + 17 * M + 2 * M
    decoder = 3 * (2 * attention + network + 3 * M) + 17 * M + 2 * M
    assert sizes.n_parameters == 13 * M + encoder + decoder
    assert (sizes.n_attentions, sizes.n_stacks) == (2 + 3 * 2, 2)
    assert (model().n_attentions, model().n_stacks) == (3, 1)
    peri = model(n_encoder_layers=2, norm_placement="peri")
    assert peri.n_norm_parameters == (2 * 4 + 3 * 6 + 2) * M
    assert (peri.norms_per_layer, sizes.norms_per_layer) == (4, 2)


def test_positions_that_are_computed_and_a_factor_cost_no_parameter():
    even = {"width": 8, "sinusoidal_positions": True, "scaled_embedding": True}
    assert model(**even).n_parameters == model(width=8).n_parameters


def test_the_transformer_of_2017_by_hand():
    base, big = PUBLISHED["transformer-base"], PUBLISHED["transformer-big"]
    m, inner = 512, 2048
    attention, network, norm = 4 * m * m, 2 * m * inner + inner + m, 2 * m
    encoder, decoder = attention + network + 2 * norm, 2 * attention + network + 3 * norm
    assert base.n_parameters == 37_000 * m + 6 * (encoder + decoder)
    assert big.attention.n_query_heads == 2 * base.attention.n_query_heads == 16
    assert base.attention.head_dim == big.attention.head_dim == 64 == 512 // 8 == 1024 // 16


def test_gpt_3_is_gpt_2_in_other_sizes():
    small, large = PUBLISHED["gpt-2"], PUBLISHED["gpt-3"]
    changed = {
        f.name
        for f in dataclasses.fields(small)
        if getattr(small, f.name) != getattr(large, f.name)
    }
    assert changed == {
        "name", "source", "n_layers", "width", "attention", "feed_forward_width", "context"
    }  # fmt: skip
    for name in ("gpt-2", "gpt-2-xl", "gpt-3"):
        sizes = PUBLISHED[name]
        assert sizes.feed_forward_width == 4 * sizes.width
        assert sizes.attention.n_query_heads * sizes.attention.head_dim == sizes.width


def test_the_embedding_is_scaled_where_it_was_trained_so():
    scaled = {name for name, sizes in PUBLISHED.items() if sizes.scaled_embedding}
    assert scaled == {"transformer-base", "transformer-big", "gemma-3-27b", "gemma-3-270m"}


def test_norms_stand_where_the_models_have_them():
    for name, sizes in PUBLISHED.items():
        after = name.startswith(("transformer", "bert", "minilm"))
        wanted = "post" if after else "peri" if name.startswith("gemma") else "pre"
        assert sizes.norm_placement == wanted, name
        # after a sum with a norm no other one is needed
        assert sizes.norm_at_end != after, name


@pytest.mark.parametrize("name", TRAINED)
def test_the_books_own_models_are_as_small_as_their_files_must_be(name):
    # at most 6 MB and 3 MB, where a number takes 2 bytes or 4
    megabytes = {"shakespeare": 6, "number-words": 3}[name]
    assert TRAINED[name].n_parameters * 2 < megabytes * 1e6
    assert TRAINED[name].source.startswith("this book")


def test_an_unknown_model_of_the_book_is_refused_with_those_that_exist():
    with pytest.raises(KeyError, match="no model 'gpt-2'; those that exist: shakespeare, number"):
        TRAINED["gpt-2"]


def test_a_whole_model_is_the_sum_of_its_parts():
    sizes = model(learned_positions=True, n_segments=2, pooler=True)
    layer = sizes.n_attention_parameters_per_layer + 2 * M * 11
    assert sizes.n_parameters == 13 * M + (17 + 2) * M + 3 * layer + 7 * M + M * M + M
    untied = model(learned_positions=True, n_segments=2, pooler=True, tied_embeddings=False)
    assert untied.n_parameters == sizes.n_parameters + 13 * M
    assert untied.n_non_embedding_parameters == sizes.n_non_embedding_parameters


def test_experts_take_the_place_of_the_network_in_all_but_the_first_layers():
    experts = ExpertSizes(n_routed=5, n_chosen=2, inner_width=3, n_shared=1, n_dense_layers=1)
    sizes = model(experts=experts)
    one = 2 * M * 3
    assert sizes.n_expert_parameters_per_layer == 6 * one + 5 * M
    assert sizes.n_parameters == model().n_parameters + 2 * (6 * one + 5 * M - 2 * M * 11)
    assert sizes.n_active_parameters == sizes.n_parameters - 2 * 3 * one


def test_a_pattern_is_repeated_and_cut_off_at_the_last_layer():
    sizes = model(n_layers=7, window=4, window_pattern=(True, False, True))
    assert sizes.windows == (4, None, 4, 4, None, 4, 4)
    assert model(n_layers=2, window=4, window_pattern=(True,)).windows == (4, 4)
    assert model(n_layers=2, window=4, window_pattern=(True,)).n_full_layers == 0


def test_an_update_of_a_size_is_checked_again():
    sizes = attention()
    assert dataclasses.replace(sizes, n_kv_heads=2).queries_per_kv_head == 3
    with pytest.raises(ValueError, match="got h=6 and g=4"):
        dataclasses.replace(sizes, n_kv_heads=4)


def test_equal_sizes_are_equal_and_can_be_keys():
    assert attention() == attention() != attention(value_dim=6)
    assert len({attention(), attention(), model(), model()}) == 2


@given(
    p=st.integers(1, 9), g=st.integers(1, 9), d=st.integers(1, 64), e=st.integers(1, 64),
    m=st.integers(1, 99),
)  # fmt: skip
def test_sharing_heads_saves_exactly_the_keys_and_values_that_are_not_there(p, g, d, e, m):
    shared = AttentionSizes(n_query_heads=g * p, n_kv_heads=g, head_dim=d, value_dim=e)
    full = dataclasses.replace(shared, n_kv_heads=g * p)
    saved = full.n_parameters(m) - shared.n_parameters(m)
    assert saved == (g * p - g) * m * (d + e)
    assert shared.queries_per_kv_head == p


@given(n_layers=st.integers(1, 40), pattern=st.lists(st.booleans(), min_size=1, max_size=7))
def test_every_layer_has_a_window_or_reads_everything(n_layers, pattern):
    window = 3 if any(pattern) else None
    sizes = model(n_layers=n_layers, window=window, window_pattern=tuple(pattern))
    assert len(sizes.windows) == sizes.n_window_layers + sizes.n_full_layers == n_layers
    assert all((w == 3) == pattern[i % len(pattern)] for i, w in enumerate(sizes.windows))


@given(factor=st.floats(1.0, 1e4), mscale=st.floats(1e-3, 2.0))
def test_yarn_never_flattens_the_scores_and_other_scalings_leave_them(factor, mscale):
    yarn = YarnScaling(
        factor=factor, original_length=4096, beta_fast=32.0, beta_slow=1.0, mscale=mscale
    )
    assert RotarySizes(base=1e4, scaling=yarn).score_factor == yarn.score_factor >= 1.0
    assert RotarySizes(base=1e4, scaling=LinearScaling(factor=factor)).score_factor == 1.0
    assert RotarySizes(base=1e4).score_factor == 1.0
