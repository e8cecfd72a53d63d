"""The explorer of key/value heads: its numbers are those of attnlib.cost and of real modules.

Chapter  chapters/grouped-query-attention.md
"""

import itertools
import re

import pytest
import torch

from attnlib import PUBLISHED, KVCache, LatentCache, cost, grouped_query_attention, kv_cache_bytes
from attnlib.explore import explore, key_value_formulas, limits
from attnlib.explore.bundle import FOLDER
from attnlib.explore.key_value_heads import FORMS, fitting_kv_heads, show_ratio
from attnlib.explore.key_value_presets import OWN, sizes_of
from attnlib.sizes import AttentionSizes, LatentAttentionSizes

NAME = "key-value-heads"
MODELS = [model for model in limits.KEY_VALUE_MODELS if model != OWN]
WITH_HEADS = [m for m in MODELS if isinstance(PUBLISHED[m].attention, AttentionSizes)]
WITH_A_LATENT = [m for m in MODELS if m not in WITH_HEADS]


def test_the_presets_are_the_published_decoders():
    decoders = {
        name for name, sizes in PUBLISHED.items() if sizes.causal and not sizes.n_encoder_layers
    }
    assert decoders - set(MODELS) == {"llama-3-70b"}  # of the same shapes as Llama 3.1 70B
    assert sizes_of("llama-3.1-70b") == sizes_of("llama-3-70b")
    assert set(MODELS) <= decoders and WITH_A_LATENT == ["deepseek-v2", "deepseek-v3"]


@pytest.mark.parametrize("model", MODELS)
def test_a_model_brings_its_sizes_and_its_name(model):
    explorer = explore(NAME, model=model)
    found, sizes = explorer.facts(), PUBLISHED[model]
    assert found["model"] == sizes.name
    assert explorer.state.items() >= sizes_of(model).items()
    assert explorer.n_query_heads == sizes.attention.n_query_heads
    assert (explorer.width, explorer.n_layers) == (sizes.width, sizes.n_layers)
    assert (found["windowLayers"], found["window"]) == (sizes.n_window_layers, sizes.window or 0)


@pytest.mark.parametrize("model", MODELS)
def test_the_cache_of_a_model_is_that_of_kv_cache_bytes(model):
    for n_tokens, n_rows, n_bytes in [(16, 1, 1), (8192, 4, 2), (131_072, 256, 4)]:
        options = {"n_tokens": n_tokens, "n_rows": n_rows, "bytes_per_number": n_bytes}
        found = explore(NAME, model=model, **options).facts()
        wanted = kv_cache_bytes(PUBLISHED[model], n_tokens, n_bytes, n_rows)
        assert found[found["form"]]["cacheBytes"] == wanted


@pytest.mark.parametrize("model", MODELS)
def test_the_parameters_of_a_model_are_its_own_but_for_norms_and_biases(model):
    sizes = PUBLISHED[model]
    attention, m = sizes.attention, sizes.width
    small = 0
    if model in WITH_A_LATENT:
        small = attention.query_latent + attention.kv_latent
    elif attention.biases:
        small = 3 * attention.n_query_heads * attention.head_dim + m
    elif attention.query_key_norm:
        small = 2 * attention.head_dim
    found = explore(NAME, model=model).facts()
    wanted = sizes.n_layers * (attention.n_parameters(m) - small)
    assert found[found["form"]]["parameters"] == wanted


@pytest.mark.parametrize("model", MODELS)
def test_the_step_of_a_model_is_that_of_cost(model):
    sizes = PUBLISHED[model]
    explorer = explore(NAME, model=model, n_tokens=2048, n_rows=2)
    found = explorer.facts()
    form = cost.usual_form(sizes, decoding=True)
    wanted = cost.evaluate(cost.pass_flops(form, 1), sizes, N=2048, B=2)
    own = found[found["form"]]
    assert own["projectionFlops"] == wanted["projections"]
    assert own["coreFlops"] == wanted["attention core"]
    assert own["stepFlops"] == wanted["projections"] + wanted["attention core"]
    beta = explorer.bytes_per_number
    intensity = cost.evaluate(cost.core_intensity(form), sizes, beta=beta)
    assert own["intensity"] == float(intensity)  # rounded once, from the exact fraction


def test_what_a_model_is_is_told_by_its_heads_or_its_latent():
    forms = {model: explore(NAME, model=model).facts()["form"] for model in MODELS}
    assert forms["gpt-3"] == forms["llama-2-7b"] == "MHA"
    assert forms["llama-3.1-70b"] == forms["gemma-3-27b"] == forms["smollm2-135m"] == "GQA"
    assert forms["gemma-3-270m"] == "MQA"
    assert forms["deepseek-v2"] == forms["deepseek-v3"] == "MLA"
    assert explore(NAME, n_query_heads=1).facts()["form"] == "MHA"


def test_sharing_changes_the_cache_and_the_projections_and_not_the_core():
    found = explore(NAME).facts()
    mha, gqa, mqa = (found[name] for name in FORMS[:3])
    assert mha["cacheBytes"] == 8 * gqa["cacheBytes"] == 64 * mqa["cacheBytes"]
    assert mha["cacheBytes"] == 80 * 2**30
    assert mha["coreFlops"] == gqa["coreFlops"] == mqa["coreFlops"] == 4 * 21_474_836_480
    assert (mha["intensity"], gqa["intensity"], mqa["intensity"]) == (1, 8, 64)
    # W^K and W^V shrink h/g-fold, W^Q and W^O stay
    m, hd = 8192, 64 * 128
    assert [each["parameters"] for each in (mha, gqa, mqa)] == [
        80 * (2 * m * hd + 2 * m * hd // share) for share in (1, 8, 64)
    ]


def test_the_latent_is_deepseeks_and_its_ratios_are_against_ordinary_mha():
    found = explore(NAME, model="deepseek-v2", n_rows=1).facts()
    attention = PUBLISHED["deepseek-v2"].attention
    assert found["latent"] == {letter: attention.letters[letter] for letter in "neruc"}
    assert found["MLA"]["cacheBytes"] == 60 * 576 * 2 * 8192
    # 2 · 128 · 128 numbers of ordinary heads against c + r = 576
    assert found["MHA"]["cacheBytes"] / found["MLA"]["cacheBytes"] == 32_768 / 576
    assert show_ratio(found["MLA"]["cacheBytes"], found["MHA"]["cacheBytes"]) == "÷56.9"
    assert found["MLA"]["intensity"] == pytest.approx(128 * 1088 / 576, rel=1e-15)


def test_a_latent_is_no_wider_than_what_it_factors():
    some = itertools.product((1, 2, 9, 128), (16, 128, 512), limits.KEY_VALUE_WIDTH)
    for h, d, m in some:
        latent = key_value_formulas.latent_sizes(h, d, m)
        assert latent.kv_latent <= min(m, h * (latent.nope_dim + latent.value_dim))
        assert latent.query_latent <= min(m, h * latent.head_dim)
        assert latent.rope_dim % 2 == 0
        assert isinstance(latent, LatentAttentionSizes)


def test_the_caches_have_the_bytes_of_real_ones():
    options = {"n_query_heads": 6, "n_kv_heads": 2, "head_dim": 16, "n_layers": 1, "width": 256}
    found = explore(NAME, **options, n_tokens=32, n_rows=2, bytes_per_number=4).facts()
    for form, g in (("MHA", 6), ("GQA", 2), ("MQA", 1)):
        cache, tokens = KVCache(), torch.zeros(2, g, 32, 16)
        cache.append(tokens, tokens)
        assert found[form]["cacheBytes"] == cache.nbytes
    cache, latent = LatentCache(), found["latent"]
    assert (latent["c"], latent["r"]) == (64, 8)
    cache.append(torch.zeros(2, 32, 64), torch.zeros(2, 32, 8))
    assert found["MLA"]["cacheBytes"] == cache.nbytes


@pytest.mark.parametrize("h,g", [(6, 2), (12, 4), (5, 5), (7, 1)])
def test_the_wires_are_those_that_grouped_query_attention_follows(h, g):
    # every value is the number of its key/value head, so a query head tells whom it reads
    values = torch.arange(g, dtype=torch.float64).reshape(1, g, 1, 1)
    read = grouped_query_attention(
        torch.zeros(1, h, 1, 2, dtype=torch.float64),
        torch.zeros(1, g, 1, 2, dtype=torch.float64),
        values,
    )
    for i, wanted in enumerate(read.reshape(-1).int().tolist()):
        found = explore(NAME, n_query_heads=h, n_kv_heads=g, query_head=i).facts()
        assert found["kvHead"] == wanted
        first, last = found["sharing"]
        assert [j for j, at in enumerate(read.reshape(-1).int().tolist()) if at == wanted] == [
            *range(first, last + 1)
        ]


@pytest.mark.parametrize(
    "h,most,wanted", [(64, 8, 8), (12, 8, 6), (25, 8, 5), (13, 8, 1), (4, 9, 4)]
)
def test_the_fitting_number_of_key_value_heads_divides_and_is_the_largest(h, most, wanted):
    assert fitting_kv_heads(h, most) == wanted
    assert explore(NAME, n_query_heads=h).n_kv_heads == fitting_kv_heads(h, 8)


# ---- presets and sizes of one's own


def test_another_size_makes_the_model_ones_own_without_windows():
    explorer = explore(NAME, model="gemma-3-27b")
    explorer.n_tokens = 1024
    assert explorer.model == "gemma-3-27b"
    explorer.n_kv_heads = 4
    assert explorer.model == OWN
    assert explorer.facts()["windowLayers"] == 0
    assert explorer.facts()["model"] == "Own sizes"
    explorer.model = "gemma-3-270m"
    assert explorer.state.items() >= sizes_of("gemma-3-270m").items()
    assert explorer.query_head < 4


def test_a_model_with_a_latent_leaves_the_number_of_key_value_heads():
    explorer = explore(NAME, n_query_heads=25, n_kv_heads=5)
    explorer.model = "deepseek-v3"
    assert (explorer.n_query_heads, explorer.n_kv_heads) == (128, 4)
    explorer.n_kv_heads = 16
    assert explorer.model == "deepseek-v3"


def test_sizes_that_are_given_are_ones_own_and_those_of_a_model_cannot_be_changed_with_it():
    assert explore(NAME, n_layers=12).model == OWN
    assert explore(NAME, n_kv_heads=8, n_query_heads=64).model == "llama-3.1-70b"
    assert explore(NAME, model="gpt-2", n_layers=12).model == "gpt-2"
    with pytest.raises(ValueError, match=r"the model gpt-2 has n_layers=12, .* got n_layers=13"):
        explore(NAME, model="gpt-2", n_layers=13)


def test_a_front_end_may_send_many_at_once():
    explorer = explore(NAME)
    explorer.set_state({"model": "gpt-3", **sizes_of("gpt-3"), "query_head": 95})
    assert explorer.facts()["model"] == "GPT-3 175B" and explorer.facts()["form"] == "MHA"
    explorer.set_state(dict(explorer.initial))
    assert explorer.state == explorer.initial
    own = {"model": OWN, "n_query_heads": 12, "n_kv_heads": 3, "query_head": 11}
    explorer.set_state(own)
    assert explorer.state.items() >= own.items()


# ---- words


def test_the_picture_in_words():
    said = explore(NAME, model="gemma-3-270m", n_tokens=65_536, n_rows=1).describe()
    assert said.startswith(
        "Gemma 3 270M: h = 4 query heads of width d = 256, g = 1 key/value head, p = h/g = 4. That "
        "is MQA. Query head 2 reads key/value head ⌊2/4⌋ = 0, as 0 to 3 do. Stream of m = 640, 18 "
        "layers, 15 with a window of 512 tokens. One decode step of 1 row: a new token each, the "
        "last of 65,536. That is beyond the 32,768 tokens that it is said to read."
    )
    found = explore(NAME).describe()
    assert "MHA 80 GiB, GQA 10 GiB (÷8), MQA 1.25 GiB (÷64), MLA 2.81 GiB (÷28.4)." in found
    assert "beyond" not in found and "In brackets the ratio to MHA" in found
    assert "and no other does" in explore(NAME, model="llama-2-7b").describe()
    assert "DeepSeek-V2 itself has MLA" in explore(NAME, model="deepseek-v2").describe()


@pytest.mark.parametrize(
    "x,base,text", [(8, 8, "×1"), (34, 10, "×3.4"), (1, 8, "÷8"), (2, 250, "÷125")]
)
def test_a_ratio_says_which_is_the_larger(x, base, text):
    assert show_ratio(x, base) == text


def test_every_state_can_be_said_and_its_whole_numbers_are_exact_in_javascript():
    ends = {
        "n_query_heads": limits.KEY_VALUE_HEADS,
        "head_dim": limits.KEY_VALUE_HEAD_DIM,
        "width": (limits.KEY_VALUE_WIDTH[0], limits.KEY_VALUE_WIDTH[-1]),
        "n_layers": limits.KEY_VALUE_LAYERS,
        "n_tokens": limits.COST_CONTEXT,
        "n_rows": limits.COST_ROWS,
    }
    for values in itertools.product(*ends.values()):
        options = dict(zip(ends, values, strict=True))
        explorer = explore(NAME, **options, n_kv_heads=options["n_query_heads"], bytes_per_number=4)
        found = explorer.facts()
        for form in FORMS:
            assert max(found[form].values()) < 2**53
        assert re.search(r"nan|inf|None", explorer.describe()) is None


def test_key_value_formulas_mjs_is_what_the_formulas_generate():
    written = (FOLDER / "key-value-formulas.mjs").read_text("utf-8")
    assert written == key_value_formulas.javascript_module()


@pytest.mark.parametrize(
    ("option", "value", "kind", "message"),
    [
        ("n_query_heads", 129, ValueError, "must lie between 1 and 128, got 129"),
        ("n_query_heads", 8.0, TypeError, "n_query_heads must be a whole number, got 8.0"),
        ("n_query_heads", 63, ValueError, "g divides h), got h=63 and g=8"),
        (
            "n_kv_heads",
            7,
            ValueError,
            "n_kv_heads must divide n_query_heads (g divides h), got h=64",
        ),
        ("n_kv_heads", 0, ValueError, "n_kv_heads must lie between 1 and 128, got 0"),
        ("head_dim", 96, ValueError, "head_dim must be a power of two from 16 to 512, got 96"),
        ("width", 1000, ValueError, "width must be one of 256, 384, 512, "),
        ("n_layers", 0, ValueError, "n_layers must lie between 1 and 128, got 0"),
        (
            "query_head",
            64,
            ValueError,
            "must be less than n_query_heads, got query_head=64 and h=64",
        ),
        ("query_head", -1, ValueError, "query_head must lie between 0 and 127, got -1"),
        ("model", "bert-base", ValueError, "model must be one of llama-3.1-70b, llama-3-8b, "),
        ("n_tokens", 8191, ValueError, "n_tokens must be a power of two from 16 to 131072"),
        ("n_rows", 3, ValueError, "n_rows must be a power of two from 1 to 256, got 3"),
        ("bytes_per_number", 3, ValueError, "bytes_per_number must be one of 1, 2, 4, got 3"),
    ],
)
def test_what_cannot_be_chosen_is_refused_at_first_and_later(option, value, kind, message):
    given = {"n_kv_heads": 8} if option == "n_query_heads" else {}
    with pytest.raises(kind, match=re.escape(message)):
        explore(NAME, **given, **{option: value})
    explorer = explore(NAME)
    before = explorer.state
    with pytest.raises(kind, match=re.escape(message)):
        setattr(explorer, option, value)
    assert explorer.state == before
