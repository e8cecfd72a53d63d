"""The claims of the chapters about cost: the formulas, and the numbers of published models.

tests/test_cost_counts.py holds their sums to loops, tests/test_cost_of_models.py the formulas to
what our own modules do and to tensors.
"""

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import pytest
import sympy as sp

import attnlib
from attnlib import PUBLISHED, TRAINED, AttentionSizes, LatentAttentionSizes, cost, kv_cache_bytes
from attnlib.cost import ABSORBED, EXPANDED, MERGED, RE_EXPANDED, SHARED_HEADS, evaluate
from attnlib.cost.letters import B, L, N, T, c, d, e, f, g, h, k_f, m, p, r, x_m
from attnlib.sizes import ExpertSizes, ModelSizes

LLAMA, GEMMA, DEEPSEEK = (PUBLISHED[x] for x in ("llama-3-70b", "gemma-3-27b", "deepseek-v2"))
GIB = 2**30
HEADS = AttentionSizes(n_query_heads=6, n_kv_heads=3, head_dim=4, value_dim=5)
LATENT = LatentAttentionSizes(
    n_query_heads=2, query_latent=3, kv_latent=5, nope_dim=7, rope_dim=4, value_dim=11
)


def model(**changes):
    small = {
        "name": "a small model",
        "source": "made up for a test",
        "n_layers": 3,
        "width": 17,
        "attention": HEADS,
        "feed_forward_width": 19,
        "gated": False,
        "activation": "gelu",
        "vocabulary": 23,
        "tied_embeddings": True,
        "norm": "rms",
        "norm_placement": "pre",
        "norm_epsilon": 1e-5,
        "context": 29,
    }
    return ModelSizes(**(small | changes))


WITH_WINDOW = model(n_layers=5, window=4, window_pattern=(True, True, False), gated=True)
WITH_EXPERTS = model(
    n_layers=4,
    attention=LATENT,
    experts=ExpertSizes(n_routed=13, n_chosen=2, inner_width=3, n_shared=1, n_dense_layers=1),
)
SMALL = {"plain": model(), "window": WITH_WINDOW, "experts": WITH_EXPERTS}


def total(parts):
    return sum(parts.values())


# --- one layer: the letters ------------------------------------------------------------------


def test_sharing_keys_and_values_shrinks_the_cache_by_p_and_no_product_of_the_core():
    full = {g: h, p: 1}
    saved = SHARED_HEADS.cache_elements.subs(full) / SHARED_HEADS.cache_elements
    assert sp.simplify(saved - h / g) == 0
    assert not SHARED_HEADS.flops_per_pair.has(g)
    assert sp.simplify(SHARED_HEADS.projection_flops.subs(g, h) - 4 * m * h * (d + e)) == 0


def test_multi_head_attention_of_the_first_transformer_costs_4_m_squared_and_crosses_at_6_m():
    # h·d = m, e = d, f = 4m, two matrices: 24m² FLOPs a token and layer outside the core
    first = {g: h, e: d, f: 4 * m, k_f: 2, cost.SYMBOLS["L_x"]: 0}
    linear = cost.linear_flops()
    per_layer = (linear["projections"] + linear["feed-forward"]).subs(first).subs(h, m / d) / L
    assert sp.simplify(per_layer - 24 * m**2) == 0
    assert sp.simplify(cost.step_crossing().subs(first).subs(h, m / d) - 6 * m) == 0


def test_absorbed_latent_attention_is_multi_query_attention_of_other_widths():
    # one key of width c + r, whose first c coordinates are the value
    as_one_head = {g: 1, d: c + r, e: c}
    assert sp.simplify(SHARED_HEADS.flops_per_pair.subs(as_one_head) - ABSORBED.flops_per_pair) == 0
    assert ABSORBED.cache_elements == c + r == SHARED_HEADS.cache_elements.subs(as_one_head) - c


def test_a_matrix_costs_two_flops_for_each_entry_and_token():
    for form in cost.FORMS.values():
        rebuilt = form.flops_per_key
        assert sp.expand(form.projection_flops + rebuilt - 2 * form.matrices) == 0, form.name
    for part, count in cost.matrices_read(cost.SYMBOLS["x_c"]).items():
        assert sp.expand(cost.linear_flops()[part] - 2 * count) == 0


@pytest.mark.parametrize(
    "n_keys,expanded,re_expanded,absorbed,merged",
    [
        (1, 298_532_864, 298_532_864, 298_729_472, 919_486_464),
        (1_024, 382_337_024, 34_708_520_960, 583_663_616, 1_204_420_608),
        (8_192, 969_539_584, 275_813_892_096, 2_580_152_320, 3_200_909_312),
        (131_072, 11_035_869_184, 4_409_048_825_856, 36_805_672_960, 37_426_429_952),
    ],
)
def test_a_decode_step_of_one_layer_of_deepseek_v2(n_keys, expanded, re_expanded, absorbed, merged):
    forms = (EXPANDED, RE_EXPANDED, ABSORBED, MERGED)
    found = [evaluate(form.step_flops(n_keys), DEEPSEEK) for form in forms]
    assert found == [expanded, re_expanded, absorbed, merged]


def test_what_absorbing_costs_and_saves_against_the_expanded_form_of_deepseek_v2():
    kept = [evaluate(form.cache_elements, DEEPSEEK) for form in (EXPANDED, ABSORBED)]
    assert kept == [40_960, 576]
    pairs = [evaluate(form.flops_per_pair, DEEPSEEK) for form in (EXPANDED, ABSORBED, MERGED)]
    assert pairs == [81_920, 278_528, 278_528]
    # against multi-head attention with as many heads of width 128
    heads = AttentionSizes(n_query_heads=128, n_kv_heads=128, head_dim=128, value_dim=128)
    assert Fraction(evaluate(SHARED_HEADS.cache_elements, heads), 576) == Fraction(512, 9)
    # merged matrices are larger, and are read at every step
    more = evaluate(MERGED.matrices - ABSORBED.matrices, DEEPSEEK)
    assert more == (919_486_464 - 298_729_472) // 2 == 310_378_496


def test_softmax_is_counted_operation_by_operation():
    class Counted(float):
        n = 0

        def _count(self, result):
            Counted.n += 1
            return Counted(result)

        def __sub__(self, other):
            return self._count(float(self) - other)

        def __add__(self, other):
            return self._count(float(self) + other)

        def __truediv__(self, other):
            return self._count(float(self) / other)

        def __gt__(self, other):
            self._count(0)
            return float(self) > other

    scores = [Counted(z) for z in (0.5, -1.0, 2.0, 0.0, 1.5)]
    largest = scores[0]
    for z in scores[1:]:
        largest = z if z > largest else largest
    powers = []
    for z in scores:
        powers.append((z - largest)._count(math.exp(z - float(largest))))
        Counted.n -= 1  # the difference inside exp is the one before, taken once
    norm = powers[0]
    for power in powers[1:]:
        norm = norm + power
    weights = [power / norm for power in powers]
    assert sum(map(float, weights)) == pytest.approx(1, abs=1e-15)
    assert Counted.n == cost.softmax_operations(5).subs(h, 1) == 23


# --- the whole model --------------------------------------------------------------------------


@pytest.mark.parametrize("sizes", [*PUBLISHED.values(), *TRAINED.values()], ids=lambda s: s.name)
def test_parameters_are_those_that_sizes_count(sizes):
    parts = evaluate(cost.parameters(sizes), sizes)
    assert total(parts) == sizes.n_parameters
    assert parts["embedding"] + parts["output head"] == sizes.n_embedding_parameters
    assert parts["attention"] == sizes.n_attentions * sizes.n_attention_parameters_per_layer
    assert parts["norms"] == sizes.n_norm_parameters
    assert parts["positions"] == sizes.n_position_parameters
    assert parts["experts"] == sizes.n_expert_layers * sizes.n_expert_parameters_per_layer


@pytest.mark.parametrize(
    "changes",
    [
        {"gated": True, "feed_forward_biases": True, "norm": "layer", "norm_placement": "peri"},
        {"n_encoder_layers": 2, "learned_positions": True, "norm_of_embedding": True},
        {"attention": replace(HEADS, biases=True, query_key_norm=True), "pooler": True},
        {
            "attention": LATENT,
            "gated": True,
            "feed_forward_biases": True,
            "experts": ExpertSizes(n_routed=13, n_chosen=2, inner_width=3, n_dense_layers=2),
        },
    ],
)
def test_parameters_know_biases_norms_encoders_and_experts(changes):
    sizes = model(**changes)
    assert total(evaluate(cost.parameters(sizes), sizes)) == sizes.n_parameters


@pytest.mark.parametrize(
    "name,linear,core",
    [
        ("llama-3-70b", 139_003_428_864, 21_474_836_480),
        ("gemma-3-27b", 54_015_295_488, 2_214_592_512),
        ("smollm2-135m", 268_959_744, 566_231_040),
        ("llama-3.2-1b", 2_471_493_632, 1_073_741_824),
    ],
)
def test_a_decode_step_at_8192_tokens(name, linear, core):
    sizes = PUBLISHED[name]
    assert total(evaluate(cost.linear_flops(), sizes)) == linear
    assert evaluate(cost.core_flops(), sizes, N=8192) == core
    step = evaluate(cost.pass_flops(n_new=1), sizes, N=8192, B=1)
    assert step["attention core"] == core and total(step) == linear + core


def test_a_decode_step_of_deepseek_v2_absorbed_and_expanded():
    others = evaluate(cost.linear_flops(), replace(DEEPSEEK, attention=HEADS))
    assert (total(others) - others["projections"]) / 1e9 == pytest.approx(23.794, abs=5e-4)
    for form, at_8k, at_128k in ((ABSORBED, 154.81, 2208.3), (EXPANDED, 58.17, 662.2)):
        found = [60 * evaluate(form.step_flops(n), DEEPSEEK) / 1e9 for n in (8192, 131_072)]
        assert found == pytest.approx([at_8k, at_128k], abs=0.05)


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("dense", [False, True])
def test_generation_in_total_is_the_sum_of_its_passes(name, dense):
    sizes = SMALL[name]
    form = RE_EXPANDED if sizes is WITH_EXPERTS else SHARED_HEADS
    one_pass = cost.pass_flops(form, dense=dense)
    n_new, prompt, rows = 4, 3, 2

    def summed(passes):
        found = [evaluate(one_pass, sizes, T=t, N=n, B=rows) for t, n in passes]
        return {part: sum(each[part] for each in found) for part in one_pass}

    how = {"T": n_new, "P": prompt, "B": rows}
    cached = evaluate(cost.cached_generation_flops(form, dense=dense), sizes, **how)
    assert cached == summed([(3, 3), (1, 4), (1, 5), (1, 6)])
    recomputed = evaluate(cost.recomputed_generation_flops(form, dense=dense), sizes, **how)
    assert recomputed == summed([(3, 3), (4, 4), (5, 5), (6, 6)])


def test_a_pass_counts_layers_with_a_window_layer_by_layer():
    per_pair = evaluate(SHARED_HEADS.flops_per_pair, HEADS)
    windows = WITH_WINDOW.windows
    assert windows == (4, 4, None, 4, 4)
    for t, n in [(1, 9), (3, 9), (9, 9), (2, 3), (1, 1)]:
        targets = range(n - t + 1, n + 1)
        pairs = sum(i if w is None else min(i, w) for w in windows for i in targets)
        found = evaluate(cost.pass_flops(), WITH_WINDOW, T=t, N=n, B=2)["attention core"]
        assert found == 2 * per_pair * pairs
        step = cost.pass_flops(n_new=1)["attention core"]
        if t == 1:
            assert found == evaluate(step, WITH_WINDOW, N=n, B=2)


def test_the_bytes_of_a_decode_step_are_weights_once_and_the_cache_of_each_row():
    how = {"T": 1, "N": 8192, "beta": 2, "beta_w": 1}
    one, many = (evaluate(cost.pass_bytes(), LLAMA, B=rows, **how) for rows in (1, 64))
    weights = ("projections", "feed-forward", "experts", "output head")
    # everything but the norms and the embedding, of which a token needs one row
    matrices = LLAMA.n_parameters - LLAMA.n_norm_parameters - LLAMA.n_embedding_parameters // 2
    assert sum(one[part] for part in weights) == matrices
    assert [many[part] for part in weights] == [one[part] for part in weights]
    assert one["cache read"] == kv_cache_bytes(LLAMA, 8192) == many["cache read"] // 64
    assert one["cache written"] == kv_cache_bytes(LLAMA, 1) == many["cache written"] // 64


def test_a_chunk_reads_the_window_and_what_its_own_tokens_add():
    per_key = 2 * evaluate(SHARED_HEADS.cache_elements, HEADS)
    for t, n, in_window in [(1, 9, 4), (3, 9, 6), (9, 9, 9), (1, 2, 2)]:
        found = evaluate(cost.pass_bytes(), WITH_WINDOW, T=t, N=n, B=1, beta=2, beta_w=1)
        assert found["cache read"] == per_key * (4 * in_window + n)
        assert found["cache written"] == per_key * 5 * t


# --- experts ----------------------------------------------------------------------------------


def test_the_experts_that_tokens_meet_are_enumerated():
    # three of five experts for each of two tokens: all 100 pairs of choices
    choices = list(itertools.combinations(range(5), 3))
    met = [len({*a, *b}) for a, b in itertools.product(choices, repeat=2)]
    assert cost.experts_met(5, 3, 2) == pytest.approx(sum(met) / len(met), rel=1e-14)
    assert cost.experts_met(5, 3, 1) == 3
    assert cost.experts_met(0, 0, 7) == 0
    assert cost.experts_met(5, 3, 10**9) == 5


def test_more_rows_meet_more_experts_and_read_their_weights():
    how = {"T": 1, "N": 1, "beta": 2, "beta_w": 2}
    experts = [
        evaluate(cost.pass_bytes(ABSORBED), DEEPSEEK, B=rows, **how)["experts"]
        for rows in (1, 2, 10_000)
    ]
    one = 3 * 5120 * 1536
    assert experts[0] == 59 * 2 * (8 * one + 160 * 5120)
    assert experts[2] == 59 * 2 * (162 * one + 160 * 5120)
    assert experts[0] < experts[1] < 2 * experts[0]
    given = evaluate(cost.pass_bytes(ABSORBED), DEEPSEEK, B=2, x_m=12, **how)["experts"]
    assert given == 59 * 2 * (14 * one + 160 * 5120)


# --- intensity, crossings, roofline ------------------------------------------------------------


@pytest.mark.parametrize(
    "name,found",
    [
        ("gpt-2", 1),
        ("llama-3-70b", 8),
        ("gemma-3-27b", 2),
        ("smollm2-135m", 3),
        ("gemma-3-270m", 4),
        ("llama-3.2-1b", 4),
        ("deepseek-v2", Fraction(128 * 1088, 576)),
    ],
)
def test_the_core_of_a_decode_step_does_so_many_flops_for_a_byte_of_the_cache(name, found):
    form = cost.usual_form(PUBLISHED[name], decoding=True)
    assert evaluate(cost.core_intensity(form), PUBLISHED[name], beta=2) == found


def test_intensity_is_flops_over_bytes():
    for sizes, form in ((LLAMA, SHARED_HEADS), (GEMMA, SHARED_HEADS), (DEEPSEEK, ABSORBED)):
        how = {"B": 3, "T": 2, "N": 5000, "beta": 1, "beta_w": 2}
        flops = evaluate(cost.pass_flops(form), sizes, T=2, N=5000, B=3)
        moved = evaluate(cost.pass_bytes(form), sizes, **how)
        found = float(evaluate(cost.pass_intensity(form), sizes, **how))
        assert found == pytest.approx(float(total(flops) / total(moved)), rel=1e-12)
    linear = {part: total for part, total in cost.pass_flops().items() if part == "projections"}
    weights = cost.pass_bytes()["projections"]
    assert sp.simplify(linear["projections"] / weights - cost.linear_intensity()) == 0


def test_more_new_tokens_share_what_is_read_of_the_cache_and_more_rows_do_not():
    assert not cost.core_intensity().has(B)
    exact = [(8 * (2 * 4096 - t + 1) * t) / (2 * 4096) for t in (1, 4)]
    found = [evaluate(cost.core_intensity(n_new=t), LLAMA, beta=2, N=4096) for t in (1, 4)]
    assert list(map(float, found)) == exact


def test_where_the_core_costs_what_the_linear_parts_cost():
    assert evaluate(cost.step_crossing(), LLAMA) == 52_224 == cost.crossing(LLAMA, decoding=True)
    assert evaluate(cost.prefill_crossing(), LLAMA) == 104_447
    assert cost.crossing(LLAMA, decoding=False) == 104_447


@pytest.mark.parametrize("name", ["gemma-3-270m", "smollm2-135m", "deepseek-v2", "deepseek-v3"])
@pytest.mark.parametrize("decoding", [True, False])
def test_before_a_crossing_the_core_costs_less_and_from_it_on_as_much(name, decoding):
    sizes = PUBLISHED[name]
    form = cost.usual_form(sizes, decoding=decoding)
    last = cost.crossing(sizes, decoding=decoding)
    for n, is_ahead in ((last - 1, False), (last, True)):
        found = evaluate(cost.pass_flops(form), sizes, T=1 if decoding else n, N=n, B=1)
        head, core = found.pop("output head"), found.pop("attention core")
        assert head == 2 * sizes.vocabulary * sizes.width
        assert (core >= total(found)) == is_ahead


def test_crossings_of_models_without_a_window_are_the_closed_forms():
    for sizes in (PUBLISHED["gpt-2"], DEEPSEEK):
        for closed, decoding in ((cost.step_crossing, True), (cost.prefill_crossing, False)):
            form = cost.usual_form(sizes, decoding=decoding)
            exact = evaluate(closed(form), sizes)
            assert cost.crossing(sizes, decoding=decoding) == math.ceil(exact)


def test_where_all_layers_have_a_window_the_core_never_catches_up():
    sizes = model(window=2, window_pattern=(True,))
    assert cost.crossing(sizes, decoding=True) is None
    assert cost.crossing(sizes, decoding=False) is None


def test_the_ridges_of_devices_and_what_is_attainable_there():
    ridges = {name: round(device.ridge) for name, device in cost.DEVICES.items()}
    assert ridges == {"a100": 153, "h100": 295, "h200": 206, "t4": 203}
    a100 = cost.DEVICES["a100"]
    speeds = {"peak": a100.peak, "bandwidth": a100.bandwidth}
    for intensity, wanted in ((1, a100.bandwidth), (a100.ridge * 2, a100.peak)):
        assert evaluate(cost.attainable(intensity), **speeds) == pytest.approx(wanted, rel=1e-15)
        seconds = evaluate(cost.least_seconds(intensity * 10**9, 10**9), **speeds)
        assert float(seconds) == pytest.approx(intensity * 1e9 / wanted, rel=1e-14)


# --- the cache --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name,per_token,at_8k,at_128k",
    [
        ("llama-3.1-70b", 327_680, 2.5, 40),
        ("gemma-3-27b", 507_904, 1.03125, 10.40625),
        ("deepseek-v2", 69_120, 0.52734375, 8.4375),
        ("llama-3.2-1b", 32_768, 0.25, 4),
    ],
)
def test_cache_bytes_of_published_models(name, per_token, at_8k, at_128k):
    sizes = PUBLISHED[name]
    assert kv_cache_bytes(sizes, 1) == per_token
    assert [kv_cache_bytes(sizes, n) / GIB for n in (8192, 131_072)] == [at_8k, at_128k]


def test_beyond_its_window_gemma_grows_by_its_ten_full_layers_only():
    assert kv_cache_bytes(GEMMA, 1024) == 1024 * 507_904
    assert kv_cache_bytes(GEMMA, 1025) - kv_cache_bytes(GEMMA, 1024) == 81_920
    # from 1,775 tokens on it holds less than Llama 3 70B
    less = [kv_cache_bytes(GEMMA, n) < kv_cache_bytes(LLAMA, n) for n in (1774, 1775)]
    assert less == [False, True]


@pytest.mark.parametrize("name", sorted(PUBLISHED))
def test_cache_bytes_are_the_formula(name):
    sizes = PUBLISHED[name]
    if not sizes.causal or sizes.n_encoder_layers:
        return
    form = cost.usual_form(sizes, decoding=True)
    for n in (0, 1, 700, 5000):
        elements = evaluate(cost.cache_elements(form), sizes, N=n)
        assert kv_cache_bytes(sizes, n, 4, 3) == 12 * elements
        moved = evaluate(cost.pass_bytes(form, 1)["cache read"], sizes, N=n, B=3, beta=4)
        assert kv_cache_bytes(sizes, n, 4, 3) == moved


def test_a_layer_that_reads_an_encoder_keeps_its_tokens_too():
    sizes = TRAINED["number-words"]
    per_token = 2 * 4 * (24 + 24)
    assert kv_cache_bytes(sizes, 7, 4, n_sources=11) == 4 * per_token * (7 + 11)
    assert kv_cache_bytes(sizes, 0, 4, n_sources=0) == 0


def test_bytes_of_an_element_may_be_a_part_as_long_as_the_whole_is_whole():
    assert kv_cache_bytes(DEEPSEEK, 1, 0.75) == 34_560 * 3 // 4
    assert kv_cache_bytes(LLAMA, 3, 0.5) * 4 == kv_cache_bytes(LLAMA, 3)


def test_it_is_a_name_of_the_package():
    assert attnlib.kv_cache_bytes is cost.kv_cache_bytes


# --- from formulas to numbers ------------------------------------------------------------------


def test_numbers_are_exact_whole_or_fractions():
    large = evaluate(h**9 * N, LLAMA, N=10**30 + 1)
    assert large == 64**9 * (10**30 + 1) and type(large) is int
    half = evaluate(N / 2, N=3)
    assert half == Fraction(3, 2) and type(half) is Fraction
    assert evaluate({"a": N, "b": sp.Integer(4)}, N=2) == {"a": 2, "b": 4}
    assert evaluate(2 * x_m, x_m=1.25) == 2.5


def test_a_letter_is_known_by_its_name():
    assert evaluate(sp.Symbol("N") * sp.Symbol("h", positive=True), LLAMA, N=3) == 192


def test_letters_are_those_of_the_axes_and_each_symbol_has_its_meaning():
    assert {x: cost.LETTERS[x] for x in "hgpdemcunrv"} == {
        x: attnlib.AXES[x] for x in "hgpdemcunrv"
    }
    assert set(cost.LETTERS) == set(cost.SYMBOLS)
    assert not set("bts") & set(cost.LETTERS)
    assert all(name == symbol.name for name, symbol in cost.SYMBOLS.items())


def test_a_models_letters_are_its_sizes():
    letters = cost.letters_of(WITH_EXPERTS)
    assert [letters[x] for x in ("L", "L_x", "x", "x_c", "x_s", "f_x", "k_f", "f")] == [
        4, 3, 13, 2, 1, 3, 2, 19
    ]  # fmt: skip
    windows = cost.letters_of(WITH_WINDOW)
    assert [windows[x] for x in ("L", "L_w", "W", "x", "k_f", "p")] == [5, 4, 4, 0, 3, 2]
    assert set(letters) | set(windows) <= set(cost.LETTERS)


# --- JavaScript -------------------------------------------------------------------------------


class Math:
    min = staticmethod(min)
    max = staticmethod(max)


@pytest.mark.parametrize("form", [SHARED_HEADS, RE_EXPANDED], ids=lambda form: form.name)
def test_formulas_in_javascript_have_the_same_values(form):
    # Python reads them too: numbers are floats, exact here as in JavaScript
    letters = {name: float(i + 3) for i, name in enumerate(cost.LETTERS)} | {"T": 2.0, "N": 31.0}
    numbers = {cost.SYMBOLS[name]: int(x) for name, x in letters.items()}
    formulas = [*cost.pass_flops(form).values(), *cost.pass_bytes(form).values()]
    for formula in (*formulas, *cost.cached_generation_flops(form).values()):
        written = cost.javascript(formula)
        found = eval(written, {"Math": Math, **letters})
        assert found == float(formula.subs(numbers)), written


def test_a_division_comes_after_the_products():
    assert cost.javascript(N * (N + 1) / 2) == "N*(N + 1)/2"
    assert cost.javascript(-N * T / 3) == "(-N*T)/3"
    assert cost.javascript(N**2) == "(N * N)"
    n = 3 * (2**51 + 1)  # a third of it, rounded, times 3 would miss it
    assert eval(cost.javascript(N * T / 3), {"N": float(n), "T": 1.0}) == n // 3
