"""The formulas of cost against what runs: our modules, as torch counts them, and real tensors.

Torch counts two FLOPs a multiply-add of matrix products, and nothing else.
"""

import pytest
import torch
from einops import rearrange
from torch.utils.flop_counter import FlopCounterMode

from attnlib import AttentionSizes, LanguageModel, LatentAttentionSizes, cost, kv_cache_bytes
from attnlib import grouped_query_attention as attend
from attnlib.caches import KVCache, WindowCache
from attnlib.cost import ABSORBED, EXPANDED, MERGED, RE_EXPANDED, SHARED_HEADS, evaluate
from attnlib.models import EncoderDecoder
from attnlib.sizes import TRAINED, ModelSizes, RotarySizes

ROWS, TOKENS = 2, 9
HEADS = {"n_query_heads": 6, "n_kv_heads": 3, "head_dim": 4, "value_dim": 5}


def model(**changes):
    small = {
        "name": "a small model",
        "source": "made up for a test",
        "n_layers": 3,
        "width": 17,
        "attention": AttentionSizes(**HEADS),
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


MODELS = {
    "two matrices": model(),
    "gated, with biases": model(
        gated=True,
        feed_forward_biases=True,
        attention=AttentionSizes(**HEADS, biases=True),
        learned_positions=True,
        tied_embeddings=False,
    ),
    "windows, rotary and peri-norms": model(
        window=4,
        window_pattern=(True, False),
        gated=True,
        rotary=RotarySizes(base=100.0),
        norm_placement="peri",
        attention=AttentionSizes(**HEADS, query_key_norm=True),
    ),
}


def made(sizes):
    pairing = None if sizes.rotary is None else "half"
    return LanguageModel(sizes, pairing=pairing).eval().requires_grad_(False)


def counted(function) -> int:
    with FlopCounterMode(display=False) as counter:
        function()
    assert counter.get_total_flops() > 0
    return counter.get_total_flops()


@pytest.mark.parametrize("name", MODELS)
def test_a_pass_of_our_model_costs_what_torch_counts_part_by_part(name):
    sizes = MODELS[name]
    decoder = made(sizes)
    tokens = torch.randint(23, (ROWS, TOKENS))
    with FlopCounterMode(display=False) as counter:
        decoder(tokens)
    by_module = {name: sum(found.values()) for name, found in counter.get_flop_counts().items()}

    def of(part):
        return sum(flops for name, flops in by_module.items() if name.endswith(part))

    found = evaluate(cost.pass_flops(dense=True), sizes, T=TOKENS, N=TOKENS, B=ROWS)
    attention = found["projections"] + found["attention core"]
    assert of(".attention") == attention > found["projections"] > 0
    assert of(".feed_forward") == found["feed-forward"] > 0
    # here all tokens get logits, and not the last one alone
    everything = sum(found.values()) + (TOKENS - 1) * found["output head"]
    assert by_module["Global"] == everything
    assert counted(lambda: decoder.logits(torch.zeros(ROWS, 1, 17))) == found["output head"]


def test_a_decode_step_reads_n_keys():
    h, g, d, e = HEADS.values()
    k, v = torch.randn(ROWS, g, TOKENS, d), torch.randn(ROWS, g, TOKENS, e)
    core = evaluate(cost.core_flops() / cost.SYMBOLS["L"], model(), N=TOKENS)
    for rows in (1, ROWS):
        q = torch.randn(rows, h, 1, d)
        assert counted(lambda q=q, rows=rows: attend(q, k[:rows], v[:rows])) == rows * core


# --- a latent in four forms --------------------------------------------------------------------

U, C, NOPE, R, E, H, M = 3, 5, 7, 4, 11, 2, 13
LATENT = LatentAttentionSizes(
    n_query_heads=H, query_latent=U, kv_latent=C, nope_dim=NOPE, rope_dim=R, value_dim=E
)


def random(*shape):
    """Numbers of size one, so that what one product makes of them is of size one again."""
    generator = torch.Generator().manual_seed(sum(shape))
    numbers = torch.randn(shape, generator=generator, dtype=torch.float64)
    return numbers / (1 if len(shape) == 3 and shape[0] == ROWS else shape[0] ** 0.5)


W_DOWN_Q, W_UP_Q, W_UP_R = random(M, U), random(U, H, NOPE), random(U, H, R)
W_DOWN = random(M, C + R)
W_UP_K, W_UP_V, W_OUT = random(C, H, NOPE), random(C, H, E), random(H, E, M)
X_BSM = random(ROWS, TOKENS, M)


def product(equation, *tensors):
    return torch.einsum(equation, *tensors)


def queries(x_b1m):
    latent = product("btm,mu->btu", x_b1m, W_DOWN_Q)
    rotary = product("btu,uhr->bhtr", latent, W_UP_R)
    return latent, rotary


def read(scores, values_per_head):
    weights = (scores * (NOPE + R) ** -0.5).softmax(-1)
    kind = "bhsc" if values_per_head.ndim == 4 else "bsc"
    return product(f"bhts,{kind}->bhtc", weights, values_per_head)


def expanded(x_b1m, kept):
    """One step: keys and values of the new token are built, those before it are kept."""
    q_latent, q_rotary = queries(x_b1m)
    q_bhtd = torch.cat([product("btu,uhn->bhtn", q_latent, W_UP_Q), q_rotary], dim=-1)
    new = product("btm,mc->btc", x_b1m, W_DOWN)
    k_new, v_new = rebuilt(new)
    k_bhsd = torch.cat([kept["k"], k_new], dim=2)
    v_bhse = torch.cat([kept["v"], v_new], dim=2)
    return out(read(product("bhtd,bhsd->bhts", q_bhtd, k_bhsd), v_bhse))


def rebuilt(latent_bsc):
    c_bsc, rotary = latent_bsc.split([C, R], dim=-1)
    k_bhsn = product("bsc,chn->bhsn", c_bsc, W_UP_K)
    shared = rotary[:, None].expand(-1, H, -1, -1)
    return torch.cat([k_bhsn, shared], dim=-1), product("bsc,che->bhse", c_bsc, W_UP_V)


def re_expanded(x_b1m, kept):
    q_latent, q_rotary = queries(x_b1m)
    q_bhtd = torch.cat([product("btu,uhn->bhtn", q_latent, W_UP_Q), q_rotary], dim=-1)
    latent = torch.cat([kept["latent"], product("btm,mc->btc", x_b1m, W_DOWN)], dim=1)
    k_bhsd, v_bhse = rebuilt(latent)
    return out(read(product("bhtd,bhsd->bhts", q_bhtd, k_bhsd), v_bhse))


def absorbed(x_b1m, kept):
    q_latent, q_rotary = queries(x_b1m)
    q_bhtn = product("btu,uhn->bhtn", q_latent, W_UP_Q)
    q_bhtc = torch.cat([product("bhtn,chn->bhtc", q_bhtn, W_UP_K), q_rotary], dim=-1)
    latent = torch.cat([kept["latent"], product("btm,mc->btc", x_b1m, W_DOWN)], dim=1)
    average = read(product("bhtc,bsc->bhts", q_bhtc, latent), latent[..., :C])
    return out(product("bhtc,che->bhte", average, W_UP_V))


MERGED_QK = torch.einsum("uhn,chn->uhc", W_UP_Q, W_UP_K)
MERGED_VO = torch.einsum("che,hem->hcm", W_UP_V, W_OUT)


def merged(x_b1m, kept):
    q_latent, q_rotary = queries(x_b1m)
    q_bhtc = torch.cat([product("btu,uhc->bhtc", q_latent, MERGED_QK), q_rotary], dim=-1)
    latent = torch.cat([kept["latent"], product("btm,mc->btc", x_b1m, W_DOWN)], dim=1)
    average = read(product("bhtc,bsc->bhts", q_bhtc, latent), latent[..., :C])
    return product(
        "btx,xm->btm", rearrange(average, "b h t c -> b t (h c)"), MERGED_VO.flatten(0, 1)
    )


def out(heads_bhte):
    return product(
        "btx,xm->btm", rearrange(heads_bhte, "b h t e -> b t (h e)"), W_OUT.flatten(0, 1)
    )


FORMS = {EXPANDED: expanded, RE_EXPANDED: re_expanded, ABSORBED: absorbed, MERGED: merged}


def kept_before():
    latent = product("bsm,mc->bsc", X_BSM[:, :-1], W_DOWN)
    k, v = rebuilt(latent)
    return {"latent": latent, "k": k, "v": v}


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_the_forms_of_latent_attention_agree_and_cost_what_torch_counts(form):
    kept, new = kept_before(), X_BSM[:, -1:]
    wanted = re_expanded(new, kept)
    # a few sums of at most 22 products of size one, in float64
    torch.testing.assert_close(FORMS[form](new, kept), wanted, rtol=0, atol=1e-12)
    letters = LATENT.letters | {"m": M}
    step = form.step_flops(TOKENS).subs({cost.SYMBOLS[x]: n for x, n in letters.items()})
    assert counted(lambda: FORMS[form](new, kept)) == ROWS * step


def test_what_the_forms_keep_of_a_token_is_as_large_as_their_tensors():
    kept = kept_before()
    n_kept = ROWS * (TOKENS - 1)
    for form, names in ((EXPANDED, "k v"), (ABSORBED, "latent"), (RE_EXPANDED, "latent")):
        n_bytes = sum(kept[name].nbytes for name in names.split())
        assert n_bytes == 8 * n_kept * evaluate(form.cache_elements, LATENT)


# --- bytes of caches ---------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_a_layers_cache_is_as_large_as_its_tensors(dtype):
    _, g, d, e = HEADS.values()
    elements = evaluate(SHARED_HEADS.cache_elements, AttentionSizes(**HEADS))
    window = 4
    for cache in (KVCache(), WindowCache(window)):
        for n in range(1, TOKENS + 1):
            k, v = (torch.zeros(ROWS, g, 1, width, dtype=dtype) for width in (d, e))
            cache.append(k, v)
            n_kept = n if isinstance(cache, KVCache) else min(n, window)
            assert cache.nbytes == ROWS * n_kept * elements * dtype.itemsize


@pytest.mark.parametrize("name", MODELS)
def test_the_cache_of_our_model_is_as_large_as_the_formula_says(name):
    sizes = MODELS[name]
    decoder = made(sizes)
    cache = decoder.new_cache()
    tokens = torch.randint(23, (ROWS, TOKENS))
    for chunk in tokens.split([3, 1, 5], dim=1):
        decoder(chunk, cache=cache)
        assert cache.nbytes == kv_cache_bytes(sizes, cache.n_tokens, 4, ROWS)


def test_the_cache_of_a_translator_holds_its_source_once():
    sizes = TRAINED["number-words"]
    translator = EncoderDecoder(sizes).eval().requires_grad_(False)
    cache = translator.new_cache(torch.randint(94, (ROWS, 7)))
    assert cache.nbytes == kv_cache_bytes(sizes, 0, 4, ROWS, n_sources=7)
