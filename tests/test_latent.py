"""The claims of chapters/latent-attention.md about its two forms, each held to an oracle.

The layer is in test_latent_layer.py, that of transformers in test_latent_of_transformers.py.
"""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from jaxtyping import TypeCheckError
from torch.nn.functional import scaled_dot_product_attention

from attnlib import causal_mask, cost, definitions, grouped_query_attention
from attnlib.caches import LatentCache
from attnlib.latent import (
    absorbed_queries,
    cheaper_form,
    expanded_keys_and_values,
    latent_attention_absorbed,
    latent_attention_expanded,
    side_by_side,
)
from attnlib.sizes import LatentAttentionSizes

# All different, so that no two axes can be confused; d = n + r is 11.
B, H, T, S, N, R, E, C = 2, 3, 5, 8, 7, 4, 9, 6
FORMS = {"expanded": latent_attention_expanded, "absorbed": latent_attention_absorbed}
BOTH = pytest.mark.parametrize("attend", FORMS.values(), ids=FORMS)
LOW = [torch.float16, torch.bfloat16]


def random(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def tensors(b=B, h=H, t=T, s=S, n=N, r=R, e=E, c=C, seed=0) -> tuple[torch.Tensor, ...]:
    shapes = (b, h, t, n + r), (b, s, c), (b, s, r), (h, n, c), (h, e, c)
    return tuple(random(*shape, seed=10 * seed + i) for i, shape in enumerate(shapes))


def some_mask(seed: int = 3) -> torch.Tensor:
    """A mask for (b, h, t, s) that leaves one target of each head with nothing to read."""
    mask = random(B, H, T, S, seed=seed) > -0.3
    mask[:, :, 2] = False
    return mask


def assert_equal(actual: torch.Tensor, wanted: torch.Tensor, atol: float = 1e-12) -> None:
    torch.testing.assert_close(actual, wanted, rtol=0, atol=atol)


# --- oracle 1: the definition ---------------------------------------------------------------


def defined(*given, may_attend=None, scale=None) -> torch.Tensor:
    may = None if may_attend is None else may_attend.numpy()
    arrays = [x.double().numpy() for x in given]
    return torch.from_numpy(definitions.latent_attention(*arrays, may, scale))


@BOTH
def test_each_form_is_its_definition_where_all_sizes_differ(attend):
    given, mask = tensors(), some_mask()
    assert_equal(attend(*given), defined(*given))
    assert_equal(
        attend(*given, may_attend=mask, scale=0.7), defined(*given, may_attend=mask, scale=0.7)
    )


@st.composite
def problems(draw):
    """Everything that the functions take, in float64, of any size from nothing upwards."""
    sizes = {letter: draw(st.integers(1, 3)) for letter in "bhec"}
    sizes |= {"t": draw(st.integers(0, 3)), "s": draw(st.integers(0, 4))}
    sizes |= {"n": draw(st.integers(0, 3)), "r": draw(st.integers(0, 3))}
    if sizes["n"] + sizes["r"] == 0:
        sizes["n"] = 1
    seed, options = draw(st.integers(0, 99)), {}
    if draw(st.booleans()):
        shape = [draw(st.sampled_from([1, sizes[letter]])) for letter in "bhts"]
        options["may_attend"] = random(*shape, seed=seed + 1) > draw(st.sampled_from([-0.7, 0.7]))
    if draw(st.booleans()):
        options["scale"] = draw(st.sampled_from([-1.5, 0.0, 0.7]))
    return tensors(**sizes, seed=seed), options


@settings(max_examples=30)
@given(problems())
def test_both_forms_are_the_definition(problem):
    given, options = problem
    wanted = defined(*given, **options)
    for attend in FORMS.values():
        assert_equal(attend(*given, **options), wanted)


# --- oracle 2: identities -------------------------------------------------------------------


def test_absorbed_is_multi_query_attention_whose_values_are_the_first_coordinates_of_the_keys():
    q, latent, rotary_key, up_keys, up_values = tensors()
    key = torch.cat([latent, rotary_key], dim=-1)[:, None]  # one head of width c + r
    wide = absorbed_queries(q, up_keys)
    assert wide.shape[-1] == key.shape[-1] == C + R
    mean = grouped_query_attention(wide, key, key[..., :C], scale=(N + R) ** -0.5)
    out = torch.stack([mean[:, i] @ up_values[i].T for i in range(H)], dim=1)
    assert_equal(latent_attention_absorbed(q, latent, rotary_key, up_keys, up_values), out)


@BOTH
def test_shared_heads_are_a_latent_whose_matrices_select(attend):
    """Keys and values side by side are the latent: the same cache, without rotary positions."""
    g, p, d, e = 2, 3, 5, 4
    q, k, v = random(B, g * p, T, d), random(B, g, S, d, seed=1), random(B, g, S, e, seed=2)
    latent = torch.cat([*k.unbind(1), *v.unbind(1)], dim=-1)
    assert latent.shape[-1] == g * (d + e)
    selected = torch.eye(g * (d + e)).double()
    keys = [selected[i // p * d :][:d] for i in range(g * p)]
    values = [selected[g * d + i // p * e :][:e] for i in range(g * p)]
    mask = causal_mask(T, S)
    out = attend(
        q, latent, latent[..., :0], torch.stack(keys), torch.stack(values), may_attend=mask
    )
    assert_equal(out, grouped_query_attention(q, k, v, may_attend=mask))


@BOTH
def test_a_basis_of_the_latent_is_free(attend):
    q, latent, rotary_key, up_keys, up_values = tensors()
    basis = torch.eye(C) + 0.1 * random(C, C, seed=7)  # near the identity: no digit is lost
    back = torch.linalg.inv(basis)
    moved = attend(q, latent @ basis, rotary_key, up_keys @ back.mT, up_values @ back.mT)
    assert_equal(moved, attend(q, latent, rotary_key, up_keys, up_values))


@BOTH
def test_order_of_sources_does_not_matter(attend):
    q, latent, rotary_key, *ups = tensors()
    order, mask = torch.randperm(S, generator=torch.Generator().manual_seed(4)), some_mask()
    moved = attend(q, latent[:, order], rotary_key[:, order], *ups, may_attend=mask[..., order])
    assert_equal(moved, attend(q, latent, rotary_key, *ups, may_attend=mask))


@BOTH
def test_the_scale_knows_the_width_of_the_keys_and_not_of_the_latent(attend):
    given = tensors()
    assert_equal(attend(*given), attend(*given, scale=(N + R) ** -0.5), atol=0)
    for other in (N**-0.5, C**-0.5, (C + R) ** -0.5):
        assert (attend(*given) - attend(*given, scale=other)).abs().max() > 1e-3


# --- oracle 3: by hand ----------------------------------------------------------------------


@BOTH
def test_a_case_by_hand(attend):
    # Source 0 leaves (1, 0) and source 1 (0, 1). Head 0 asks for the first coordinate, head 1 for
    # the second, head 2 by position alone, and all of them strongly.
    latent = torch.tensor([[[1.0, 0.0], [0.0, 1.0]]])
    rotary_key = torch.tensor([[[0.0], [1.0]]])
    up_keys = torch.tensor([[[1.0, 0.0]], [[0.0, 1.0]], [[1.0, 0.0]]])
    q = 200.0 * torch.tensor([[[[1.0, 0.0]], [[1.0, 0.0]], [[0.0, 1.0]]]])
    # head i adds 10·i to what it reads: 1 of source 0 and 2 of source 1
    up_values = torch.tensor([[[1.0, 2.0]], [[11.0, 12.0]], [[21.0, 22.0]]])
    out = attend(q, latent, rotary_key, up_keys, up_values)
    assert out.flatten().tolist() == [1.0, 12.0, 22.0]


# --- oracle 4: torch ------------------------------------------------------------------------


@BOTH
def test_it_is_what_torch_gives_for_keys_and_values_that_were_built(attend):
    q, latent, rotary_key, up_keys, up_values = tensors()
    keys = [torch.cat([latent @ up_keys[i].T, rotary_key], dim=-1) for i in range(H)]
    values = [latent @ up_values[i].T for i in range(H)]
    keys, values, mask = torch.stack(keys, dim=1), torch.stack(values, dim=1), some_mask()
    for ours, wanted in zip(
        expanded_keys_and_values(latent, rotary_key, up_keys, up_values),
        (keys, values),
        strict=True,
    ):
        assert_equal(ours, wanted)
    out = attend(q, latent, rotary_key, up_keys, up_values, may_attend=mask)
    assert_equal(out, scaled_dot_product_attention(q, keys, values, attn_mask=mask))


# --- what holds for attention holds here ----------------------------------------------------


@BOTH
def test_a_target_with_nothing_to_read_gets_zero(attend):
    out = attend(*tensors(), may_attend=some_mask())
    assert (out[:, :, 2] == 0).all() and (out[:, :, [0, 1, 3, 4]] != 0).all()
    assert (attend(*tensors(s=0)) == 0).all()


@BOTH
@pytest.mark.parametrize("odd", [torch.nan, torch.inf])
def test_what_may_not_be_read_has_no_influence(attend, odd):
    q, latent, rotary_key, *ups = tensors()
    mask = torch.ones(T, S, dtype=torch.bool)
    mask[:, [1, 4]] = False
    wanted = attend(q, latent, rotary_key, *ups, may_attend=mask)
    latent[:, 1], rotary_key[:, 4] = odd, odd
    q.requires_grad_()
    out = attend(q, latent, rotary_key, *ups, may_attend=mask)
    assert_equal(out, wanted)
    out.sum().backward()
    assert q.grad.isfinite().all() and (q.grad != 0).any()


@pytest.mark.parametrize("form", FORMS)
def test_what_may_not_be_read_reaches_the_gradients_of_the_matrices_in_the_expanded_form(form):
    given, mask = tensors(), torch.arange(S) != 4
    given[1][:, 4], given[2][:, 4] = torch.nan, torch.inf
    for x in given:
        x.requires_grad_()
    FORMS[form](*given, may_attend=mask).sum().backward()
    finite = [bool(x.grad.isfinite().all()) for x in given]
    assert finite == [True, True, True, *[form == "absorbed"] * 2]


@BOTH
def test_gradients_are_those_of_the_formula(attend):
    given = [x.requires_grad_() for x in tensors(b=1, t=2, s=3, n=2, r=2, e=2, c=3)]
    mask = torch.tensor([[True, False, True], [True, True, False]])
    assert torch.autograd.gradcheck(lambda *x: attend(*x, may_attend=mask), given)


@BOTH
def test_torch_func_finds_the_gradients_of_autograd(attend):
    given = tensors()
    found = torch.func.grad(lambda *x: attend(*x).sum(), argnums=tuple(range(5)))(*given)
    wanted = torch.autograd.grad(attend(*(x.requires_grad_() for x in given)).sum(), given)
    for x, y in zip(found, wanted, strict=True):
        assert_equal(x, y)


def bound(given: tuple[torch.Tensor, ...], dtype: torch.dtype) -> torch.Tensor:
    """How far an output may be from the exact one: rounded once, and sums in fp32 before that."""
    q, latent, rotary_key, up_keys, up_values = (x.double().abs() for x in given)
    scale, fp32 = (N + R) ** -0.5, 2.0**-24
    # each term of a score meets a product with W, a sum of n or c, the scale, and a sum of c + r
    scores = torch.einsum("bhtn,hnc,bsc->bhts", q[..., :N], up_keys, latent)
    scores = scale * (scores + torch.einsum("bhtr,bsr->bhts", q[..., N:], rotary_key))
    of_score = (N + 2 * C + R + 4) * fp32 * scores.amax()
    # a weight is off by twice a score's error, by the sum of s exponentials and by a quotient
    of_weight = 2 * of_score + (S + 4) * fp32
    values = torch.einsum("hec,bsc->bhse", up_values, latent).amax()
    exact = defined(*given)
    rounded = torch.finfo(dtype).eps / 2 * exact.abs() + torch.finfo(dtype).smallest_normal
    return 1.01 * (rounded + values * (of_weight + (S + C + 2) * fp32))


@pytest.mark.parametrize("dtype", LOW)
def test_low_precision_is_rounded_once(dtype):
    q, *kept, up_keys, up_values = tensors()
    given = tuple(x.to(dtype) for x in (q, *kept, C**-0.5 * up_keys, C**-0.5 * up_values))
    exact, most = defined(*given), bound(given, dtype)
    outs = [attend(*given) for attend in FORMS.values()]
    for out in outs:
        assert out.dtype == dtype
        assert ((out.double() - exact).abs() <= most).all()
    assert ((outs[0] - outs[1]).double().abs() <= 2 * most).all()
    # the bound is worth something: it is below two halves of a step
    worth = exact.abs() > (0.2 if dtype == torch.bfloat16 else 0.9)
    assert worth.any() and (most < torch.finfo(dtype).eps * exact.abs())[worth].all()


@BOTH
def test_what_comes_before_the_scores_may_be_larger_than_fp16_knows(attend):
    ups = torch.full((1, 64, 2), 32.0), torch.ones(1, 1, 2)
    q = torch.full((1, 1, 1, 64), 32.0)  # 64 · 32 · 32 is beyond 65,504
    latent = torch.tensor([[[0.25, 0.0], [0.0, 0.25]]])
    given = [x.half() for x in (q, latent, latent[..., :0], *ups)]
    assert attend(*given).tolist() == [[[[0.25]]]]


@BOTH
def test_autocast_changes_nothing(attend):
    given = [x.float() for x in tensors()]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = attend(*given)
    assert torch.equal(inside, attend(*given))


def test_a_swapped_axis_is_refused_while_tests_run():
    q, latent, rotary_key, *ups = tensors()
    for attend in FORMS.values():
        with pytest.raises(TypeCheckError):
            attend(q, latent.mT, rotary_key, *ups)


# --- what is kept is read as it is kept -------------------------------------------------------


def test_neighbours_in_memory_are_read_without_a_copy():
    latent, rotary_key = random(B, S, C), random(B, S, R, seed=1)
    cache = LatentCache()
    kept = cache.append(latent, rotary_key)
    both = side_by_side(*kept)
    assert torch.equal(both, torch.cat([latent, rotary_key], dim=-1))
    assert both.data_ptr() == kept[0].data_ptr()
    given = tensors()
    assert_equal(
        latent_attention_absorbed(given[0], *kept, *given[3:]),
        latent_attention_absorbed(given[0], latent, rotary_key, *given[3:]),
    )


def test_what_are_no_neighbours_is_put_together():
    one, other = random(B, S, C + R), random(B, S, C + R, seed=1)
    whole = {
        "another memory": (one[..., :C], other[..., C:]),
        "the wrong way round": (one[..., R:], one[..., :R]),
        "a gap": (one[..., : C - 1], one[..., C:]),
        "other rows": (one[:1, :, :C].expand(B, -1, -1), one[..., C:]),
        "other tokens": (one.flip(1)[..., :C], one[..., C:]),
        "other coordinates": (one.mT.contiguous().mT[..., :C], one.mT.contiguous().mT[..., C:]),
    }
    for latent, key in whole.values():
        both = side_by_side(latent, key)
        assert torch.equal(both, torch.cat([latent, key], dim=-1))
        assert both.data_ptr() not in (one.data_ptr(), other.data_ptr())


def test_gradients_flow_to_neighbours_too():
    q, latent, rotary_key, *ups = tensors()
    both = torch.cat([latent, rotary_key], dim=-1).requires_grad_()
    parts = [x.clone().requires_grad_() for x in (latent, rotary_key)]
    latent_attention_absorbed(q, both[..., :C], both[..., C:], *ups).sum().backward()
    latent_attention_absorbed(q, *parts, *ups).sum().backward()
    assert_equal(both.grad, torch.cat([x.grad for x in parts], dim=-1))


# --- which form is cheaper ------------------------------------------------------------------

WIDTHS = st.integers(1, 40)


def flops(form, t: int, s: int, sizes: LatentAttentionSizes) -> int:
    """Of one layer's core: pairs, what is rebuilt, and what a new token is carried through."""
    counted = form.flops_per_pair * t * s + form.flops_per_key * s
    if form is cost.ABSORBED:
        counted += t * (form.projection_flops - cost.RE_EXPANDED.projection_flops)
    return int(counted.subs({name: sizes.letters[str(name)] for name in counted.free_symbols}))


@settings(max_examples=25)
@given(t=st.integers(1, 60), more=st.integers(0, 200), c=WIDTHS, n=WIDTHS, e=WIDTHS)
def test_the_cheaper_form_is_that_of_the_cost_model(t, more, c, n, e):
    sizes = LatentAttentionSizes(
        n_query_heads=H, query_latent=2, kv_latent=c, nope_dim=n, rope_dim=R, value_dim=e
    )
    chosen = cheaper_form(t, t + more, kv_latent=c, nope_dim=n, value_dim=e)
    counts = {
        "expanded": flops(cost.RE_EXPANDED, t, t + more, sizes),
        "absorbed": flops(cost.ABSORBED, t, t + more, sizes),
    }
    assert counts[chosen] == min(counts.values())


def test_a_prompt_is_expanded_and_a_new_token_absorbed():
    widths = {"kv_latent": 512, "nope_dim": 128, "value_dim": 128}
    assert cheaper_form(4096, 4096, **widths) == "expanded"
    assert cheaper_form(1, 1, **widths) == "expanded"
    assert {cheaper_form(1, s, **widths) for s in (2, 7, 4096)} == {"absorbed"}
    # c(n + e)/(2c − n − e) = 131072/768, of a text that is long beside the chunk
    assert [cheaper_form(t, 10**7, **widths) for t in (170, 171)] == ["absorbed", "expanded"]
