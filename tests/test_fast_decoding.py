"""The step of chapter kv-caching that is quick: for one new token a row it is the model itself.

That generation with it is transformers', token for token on real weights, is checked where speed is
measured, in benchmarks/generation.py.
"""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from attnlib import (
    AttentionSizes,
    DecodeStep,
    LanguageModel,
    LatentAttentionSizes,
    ModelSizes,
    generate,
    load_pretrained,
    vector_products,
)
from attnlib.caches import KVCache
from attnlib.fast_decoding import attention_step, rotation_at
from attnlib.sizes import RotarySizes
from attnlib.timing import Timing
from attnlib.vector_products import LAYOUTS, Matrices, matrices_of

# All different; two queries a key/value head and three of these, so that g is neither 1 nor h.
B, T, H, G, D, E, M, INNER, V, CONTEXT = 2, 12, 6, 3, 4, 5, 8, 11, 13, 16
N_LAYERS = 2
U, C, N, R, E_LATENT = 7, 9, 5, 2, 3  # of a model with a latent
HEADS = AttentionSizes(n_query_heads=H, n_kv_heads=G, head_dim=D, value_dim=E)
SIZES = ModelSizes(
    name="a small model",
    source="made up for a test",
    n_layers=N_LAYERS,
    width=M,
    attention=HEADS,
    feed_forward_width=INNER,
    gated=True,
    activation="silu",
    vocabulary=V,
    tied_embeddings=True,
    norm="rms",
    norm_placement="pre",
    norm_epsilon=1e-3,
    context=CONTEXT,
    rotary=RotarySizes(base=100.0),
)
LATENT = LatentAttentionSizes(
    n_query_heads=H, query_latent=U, kv_latent=C, nope_dim=N, rope_dim=R, value_dim=E_LATENT
)
WINDOW = {"window": 3, "window_pattern": (True, False)}
GPT_2 = {
    "rotary": None,
    "learned_positions": True,
    "norm": "layer",
    "gated": False,
    "activation": "gelu-tanh",
    "feed_forward_biases": True,
    "attention": replace(HEADS, biases=True),
    "tied_embeddings": False,
}
GEMMA = {
    **WINDOW,
    "rotary": RotarySizes(base=100.0, window_base=10.0),
    "norm_placement": "peri",
    "attention": replace(HEADS, query_key_norm=True, scale_width=9),
    "scaled_embedding": True,
    "activation": "gelu-tanh",
}
POST = {
    "rotary": None,
    "sinusoidal_positions": True,
    "norm": "layer",
    "norm_placement": "post",
    "norm_of_embedding": True,
    "norm_at_end": False,
    "gated": False,
    "activation": "relu",
}
KINDS = {
    "llama": {},
    "gpt-2": GPT_2,
    "gemma": GEMMA,
    "post": POST,
    "window": WINDOW,
    "no positions": {"rotary": None, "norm_of_embedding": True},
    "one key/value head": {"attention": replace(HEADS, n_kv_heads=1)},
    "no heads shared": {"attention": replace(HEADS, n_kv_heads=H)},
    "latent": {"attention": LATENT},
    "latent, no rotary positions": {"attention": LATENT, "rotary": None},
}
ATOL = 1e-11  # ten thousand roundings of numbers of size 10 in fp64


def made(pairing="half", seed=0, dropout=0.0, **changes):
    """In fp64, every number random, so that no part of a token is without influence."""
    sizes = replace(SIZES, **changes)
    pairing = None if sizes.rotary is None else pairing
    model = LanguageModel(sizes, pairing=pairing, dropout=dropout).double().eval()
    generator = torch.Generator().manual_seed(seed)
    for name, weight in model.requires_grad_(False).named_parameters():
        spread = 1.0 if "embedding" in name or weight.ndim == 1 else weight.shape[1] ** -0.5
        weight.copy_(spread * torch.randn(weight.shape, generator=generator).double())
    return model


MODELS = {name: made(**changes) for name, changes in KINDS.items()}
MODELS["neighbours"] = made("interleaved")
MODELS["latent, neighbours"] = made("interleaved", attention=replace(LATENT, rope_dim=6))
STEPS = {name: DecodeStep(model, layout="parts") for name, model in MODELS.items()}
MODEL, STEP = MODELS["llama"], STEPS["llama"]
TOKENS = torch.randint(V, (B, T), generator=torch.Generator().manual_seed(1))


def in_steps(step, tokens, cache):
    return torch.cat([step(tokens[:, i : i + 1], cache=cache) for i in range(tokens.shape[1])], 1)


def assert_equal(actual, wanted, atol=ATOL):
    torch.testing.assert_close(actual, wanted, rtol=0, atol=atol)


def kept(cache):
    """All numbers in a cache, in the order in which they are held."""
    return [x.narrow(-2, 0, layer.n_kept) for layer in cache.layers for x in layer._buffers]


# --- the step is the model ---------------------------------------------------------------------


@pytest.mark.parametrize("name", MODELS)
def test_every_step_after_a_prompt_is_the_models_own(name):
    model = MODELS[name]
    caches = [model.new_cache() for _ in range(2)]
    model(TOKENS[:, :4], cache=caches[0])
    logits = in_steps(STEPS[name], TOKENS[:, 4:], caches[0])
    assert_equal(logits, model(TOKENS, cache=caches[1])[:, 4:])
    assert caches[0].n_tokens == T
    for mine, theirs in zip(*map(kept, caches), strict=True):
        assert_equal(mine, theirs)


@pytest.mark.parametrize("name", ["llama", "gpt-2", "gemma", "post"])
def test_the_first_token_may_be_a_step_too_and_a_row_alone(name):
    model = MODELS[name]
    assert_equal(in_steps(STEPS[name], TOKENS[1:], model.new_cache()), model(TOKENS[1:]))


@settings(max_examples=8)
@given(
    sizes=st.lists(st.integers(1, 4), min_size=1, max_size=5),
    n_paddings=st.lists(st.integers(0, T - 1), min_size=B, max_size=B),
    name=st.sampled_from(sorted(MODELS)),
)
def test_step_and_model_take_turns_in_rows_with_padding(sizes, n_paddings, name):
    model, step, cache = MODELS[name], STEPS[name], MODELS[name].new_cache()
    is_token = torch.arange(T) >= torch.tensor(n_paddings)[:, None]
    logits, begin, i = [], 0, 0
    while begin < T:
        end = begin + sizes[i % len(sizes)]
        chunk, mask = TOKENS[:, begin:end], is_token[:, begin:end]
        alone = chunk.shape[1] == 1 and mask.all()
        call = {} if alone else {"is_token": mask}
        logits.append((step if alone else model)(chunk, cache=cache, **call))
        begin, i = end, i + 1
    wanted = model(TOKENS, is_token=is_token)
    assert_equal(torch.cat(logits, dim=1)[is_token], wanted[is_token])


@pytest.mark.parametrize("name", ["gpt-2", "gemma", "post", "window", "latent"])
def test_rows_that_are_padded_on_the_left_count_their_own_tokens(name):
    model, cache = MODELS[name], MODELS[name].new_cache()
    is_token = torch.arange(T) >= torch.tensor([[6], [2]])
    model(TOKENS[:, :7], is_token=is_token[:, :7], cache=cache)
    logits = in_steps(STEPS[name], TOKENS[:, 7:], cache)
    assert_equal(logits, model(TOKENS, is_token=is_token)[:, 7:])


def test_padding_may_stand_between_tokens_where_all_are_kept():
    is_token = torch.ones(B, T, dtype=torch.bool)
    is_token[0, 3] = is_token[1, 1:5] = False
    cache = MODEL.new_cache()
    MODEL(TOKENS[:, :8], is_token=is_token[:, :8], cache=cache)
    logits = in_steps(STEP, TOKENS[:, 8:], cache)
    assert_equal(logits, MODEL(TOKENS, is_token=is_token)[:, 8:])


def test_after_reset_truncate_and_reorder_the_cache_is_the_models():
    cache = MODEL.new_cache()
    in_steps(STEP, TOKENS[:, :9], cache)
    cache.truncate(5)
    cache.reorder([1, 0, 1])
    rows = TOKENS[[1, 0, 1]]
    assert_equal(in_steps(STEP, rows[:, 5:], cache), MODEL(rows)[:, 5:])
    cache.reset()
    other = TOKENS.flip(1)
    assert_equal(in_steps(STEP, other, cache), MODEL(other))


@pytest.mark.parametrize("name", ["llama", "window", "latent"])
def test_what_is_kept_in_eight_bits_is_read_as_the_model_reads_it(name):
    model = MODELS[name]
    caches = [model.new_cache(storage="int8") for _ in range(2)]
    logits, wanted = (
        in_steps(read, TOKENS, cache)
        for read, cache in zip((STEPS[name], model), caches, strict=True)
    )
    assert_equal(logits, wanted)
    assert (logits - model(TOKENS)).abs().max() > 1e-6


@pytest.mark.parametrize("name", MODELS)
def test_the_layout_does_not_matter(name):
    step = DecodeStep(MODELS[name], layout="rows")
    for b in (1, B):
        logits = in_steps(step, TOKENS[:b], MODELS[name].new_cache())
        assert_equal(logits, MODELS[name](TOKENS[:b]))
        assert logits.shape == (b, T, V)


@pytest.mark.parametrize("faster", LAYOUTS)
def test_the_layout_that_was_measured_to_be_faster_is_taken(faster, monkeypatch):
    def measured(calls, **options):
        """As if the products of one layout took twice as long; both are of the same numbers."""
        first, second = (call() for call in calls.values())
        assert_equal(first, second)
        return {layout: Timing((1.0 if layout == faster else 2.0,)) for layout in calls}

    monkeypatch.setattr(vector_products, "compare", measured)
    step = DecodeStep(MODEL)
    assert step.layout == faster
    assert_equal(in_steps(step, TOKENS, MODEL.new_cache()), MODEL(TOKENS))


def test_a_step_that_measures_takes_one_of_the_layouts():
    assert DecodeStep(MODEL).layout in LAYOUTS


def test_an_error_at_the_end_leaves_the_cache_as_it_was(monkeypatch):
    step, cache = DecodeStep(MODEL), MODEL.new_cache()
    MODEL(TOKENS[:, :3], cache=cache)

    def no_memory(x):
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(step, "_head", no_memory)
        with pytest.raises(MemoryError):
            step(TOKENS[:, 3:4], cache=cache)
    assert cache.n_tokens == 3
    assert_equal(step(TOKENS[:, 3:4], cache=cache), MODEL(TOKENS[:, :4])[:, 3:])


class Read(TorchDispatchMode):
    """At which places of one piece of memory torch's products begin to read."""

    def __init__(self, nbytes):
        super().__init__()
        self.nbytes, self.places = nbytes, []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        of_products = "mm" in str(function) or "linear" in str(function)
        for x in args if of_products else ():
            if isinstance(x, torch.Tensor) and x.untyped_storage().nbytes() == self.nbytes:
                self.places.append((x.storage_offset(), x.numel()))
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("name", "n_products"), [("llama", 4), ("latent", 7)])
def test_the_matrices_are_read_one_after_the_other(name, n_products, layout):
    step = DecodeStep(MODELS[name], layout=layout)
    with torch.inference_mode(), Read(step.nbytes) as read:
        step(TOKENS[:1, :1], cache=MODELS[name].new_cache())
    assert len(read.places) == n_products * N_LAYERS + 1
    end = 0
    for place, n_elements in read.places:
        assert place == end
        end += n_elements
    assert 8 * end == step.nbytes


def test_in_16_bits_it_is_at_most_twice_as_far_from_the_truth_as_the_model():
    for name, dtype in (("llama", torch.float16), ("gemma", torch.bfloat16)):
        # both begin with the same 16-bit numbers
        model = made(**KINDS[name]).to(dtype)
        exact = made(**KINDS[name])
        exact.load_state_dict({key: x.double() for key, x in model.state_dict().items()})
        wanted = exact(TOKENS)
        step = DecodeStep(model)
        errors = [
            (in_steps(read, TOKENS, model.new_cache()).double() - wanted).abs().max()
            for read in (step, model)
        ]
        assert 0 < errors[0] <= 2 * errors[1]


@pytest.mark.parametrize("name", ["llama", "latent"])
def test_autocast_changes_a_step_as_it_changes_the_model(name):
    model = made(**KINDS[name]).float()
    wanted, cache, step = model(TOKENS), model.new_cache(), DecodeStep(model)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        errors = [
            (read.double() - wanted).abs().max()
            for read in (in_steps(step, TOKENS, cache), model(TOKENS))
        ]
    assert 0 < errors[0] <= 3 * errors[1]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_no_rows_have_no_logits(layout):
    for name in ("llama", "latent"):
        step, cache = DecodeStep(MODELS[name], layout=layout), MODELS[name].new_cache()
        assert step(TOKENS[:0, :1], cache=cache).shape == (0, 1, V)


@pytest.mark.parametrize("name", ["llama", "latent"])
def test_a_layer_by_itself_has_a_step_too_whatever_is_recorded(name):
    model = made(**KINDS[name]).requires_grad_(True)
    layer, x = model.decoder.blocks[0].attention, torch.randn(B, 1, M).double()
    step = attention_step(layer, Matrices(matrices_of(layer), "parts"))
    cache = model.new_cache().layers[0]
    out = step(x, cache, rotation_at(layer, torch.tensor([0])), None)
    assert not out.requires_grad
    assert_equal(out, layer(x))


# --- what it is made of ------------------------------------------------------------------------


def test_bytes_are_those_of_all_matrices():
    assert STEP.nbytes == 8 * (
        # with three rows of zeros v = 13 becomes 16; the embedding itself is not held again
        (V + 3) * M + N_LAYERS * (M * ((H + G) * D + G * E) + H * E * M + 3 * M * INNER)
    )
    of_latents = M * (U + C + R) + H * (N + R) * U + H * (N + E_LATENT) * C + H * E_LATENT * M
    assert STEPS["latent"].nbytes == 8 * ((V + 3) * M + N_LAYERS * (of_latents + 3 * M * INNER))


def test_no_gradient_and_no_dropout():
    model = made(dropout=0.5)
    wanted = model(TOKENS)
    step, cache = DecodeStep(model.train().requires_grad_(True)), model.new_cache()
    logits = in_steps(step, TOKENS, cache)
    assert not logits.requires_grad
    assert_equal(logits, wanted)


class Count(TorchDispatchMode):
    """How often torch's kernels and views are called."""

    calls = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.calls += 1
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize(("name", "share"), [("llama", 1 / 2), ("latent", 2 / 3)])
def test_a_layer_calls_torch_less_often_than_the_model_does(name, share):
    calls = {}
    for n_layers in (1, 2):
        model = made(**KINDS[name], n_layers=n_layers)
        for reader, read in (("model", model), ("step", DecodeStep(model, layout="parts"))):
            cache = model.new_cache()
            model(TOKENS[:1, :4], cache=cache)
            with torch.inference_mode(), Count() as count:
                read(TOKENS[:1, 4:5], cache=cache)
            calls[reader, n_layers] = count.calls
    step, whole = (calls[reader, 2] - calls[reader, 1] for reader in ("step", "model"))
    assert 0 < step < share * whole, (step, whole)


def test_after_an_interrupt_the_cache_is_as_it_was(monkeypatch):
    cache = MODEL.new_cache()
    MODEL(TOKENS[:, :6], cache=cache)
    append, calls = KVCache.append, []

    def stop(self, k, v):
        calls.append(self)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return append(self, k, v)

    with monkeypatch.context() as patched:
        patched.setattr(KVCache, "append", stop)
        with pytest.raises(KeyboardInterrupt):
            STEP(TOKENS[:, 6:7], cache=cache)
    assert {x.n_tokens for x in cache.layers} == {cache.n_tokens} == {6}
    assert_equal(in_steps(STEP, TOKENS[:, 6:], cache), MODEL(TOKENS)[:, 6:])


def test_a_row_that_holds_nan_spoils_no_other():
    model = made()
    model.decoder.word_embedding.weight[V - 1] = torch.nan
    tokens = TOKENS % (V - 1)
    tokens[0, 2] = V - 1
    logits = in_steps(DecodeStep(model), tokens, model.new_cache())
    assert logits[0, 2:].isnan().all()
    # tied, so that the logit of that very token is NaN everywhere
    assert_equal(logits[1, :, : V - 1], model(tokens[1:])[0, :, : V - 1])
    assert logits[1, :, : V - 1].isfinite().all()


# --- generation --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["gpt-2", "gemma"])
def test_what_is_generated_is_the_same(name, monkeypatch):
    model, step, calls = MODELS[name], STEPS[name], []
    rows = [[3, 1, 4], [1], [5, 9, 2, 6, 5]]
    for call in ({}, {"stop": [7, 11, 4]}):
        wanted = generate(model, rows, 9, **call)
        read = DecodeStep.__call__
        monkeypatch.setattr(
            DecodeStep,
            "__call__",
            lambda self, tokens, *, cache, read=read: (
                calls.append(len(tokens)) or read(self, tokens, cache=cache)
            ),
        )
        assert generate(model, rows, 9, step=step, **call) == wanted
        monkeypatch.undo()
        # every token but the first, for the rows that still go on
        assert calls == [sum(len(row) > n for row in wanted) for n in range(1, len(calls) + 1)]
        assert len(calls) == max(map(len, wanted)) - 1
        calls.clear()


def test_shakespeare_goes_on_with_the_same_words():
    shakespeare = load_pretrained("shakespeare")
    prompt = shakespeare.encode("To be, or not to be")
    wanted = generate(shakespeare.model, [prompt], 40)
    assert generate(shakespeare.model, [prompt], 40, step=DecodeStep(shakespeare.model)) == wanted
    assert len(set(wanted[0])) > 10
