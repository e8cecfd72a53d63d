r"""Fast decoding: the step that reads one new token a row, with little to do but read the weights.

Source   Pope et al. 2022, arXiv:2211.05102, section 2 (decoding waits for the weights); this book
Chapter  chapters/kv-caching.md
Axes     attnlib/axes.py

One new token makes a vector of m numbers, and every matrix is read once to multiply it. So a step
takes at least the bytes of the weights over the bandwidth of the memory. A `LanguageModel` takes
more: its parts are made for any number of tokens, look at all they are given, and ask torch for
eighty to a hundred things a layer. `DecodeStep` asks for half to two thirds of them and computes
the same numbers:

- **One piece of memory.** The matrices stand one after the other in the order in which they are
  read, so that no two reads are far apart.
- **A layout for one vector.** A step measures those of `attnlib.vector_products` when it is made,
  and keeps the faster.
- **Fewer calls.** Query, key and value are one product, as all that comes down to a latent is, and
  so are `gate` and `widen`; what a sub-layer adds is added within its last product.
- **A rotation is a matrix.** All heads turn alike, so that the rows of the identity are turned once
  a step, and each layer multiplies by the result.
- **A root mean square is a standard deviation**: that of (x, −x), which has the mean 0. torch has
  one call for the norm of layer norm, and some eight for the other.
- **Nothing is looked at twice.** What a layer is given was made by the layer before.

    >>> from attnlib import TRAINED
    >>> model = LanguageModel(TRAINED["shakespeare"], pairing="half").eval()
    >>> step, cache = DecodeStep(model), model.new_cache()
    >>> tokens = torch.tensor([[3, 1, 4, 1, 5]])
    >>> with torch.inference_mode():
    ...     whole, _ = model(tokens), model(tokens[:, :4], cache=cache)
    ...     logits = step(tokens[:, 4:], cache=cache)
    >>> torch.allclose(logits, whole[:, 4:], atol=1e-5)
    True
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from attnlib.attention import grouped_query_attention
from attnlib.caches import LatentCache, LayerCache, ModelCache
from attnlib.latent import side_by_side
from attnlib.layers import (
    ACTIVATIONS,
    Block,
    LatentSelfAttention,
    MultiHeadAttention,
    RMSNorm,
)
from attnlib.models import LanguageModel
from attnlib.models.inputs import check_tokens
from attnlib.positions import turn_by
from attnlib.sizes import LatentAttentionSizes
from attnlib.softmax import computing_dtype
from attnlib.vector_products import LAYOUTS, N_PARTS, Matrices, faster_layout, matrices_of

__all__ = ["DecodeStep", "attention_step", "rotation_at"]


class DecodeStep:
    """A language model's step for one new token a row, prepared once and called for every token.

    It has a copy of the matrices, laid out for this use, so that the weights are held twice; the
    prompt is for the model itself to read, with the same cache. Model and step may take turns.
    There is no dropout here, whatever mode the model is in.

    Attributes:
        model: Whose step it is.
        layout: How the matrices stand in memory, "rows" or "parts".
        nbytes: The bytes of the matrices that are held a second time.

    Args:
        model: A language model of any kind but one with experts. Where it has a latent, the step
            attends in the absorbed form; in 16 bits it rounds the queries on their way to the
            latents, and the averages on their way back, which the model keeps in fp32.
        layout: As above. None means the faster, measured now with as many threads as torch uses
            now; "rows" on another device than the CPU. The result does not depend on it, but for
            rounding; the speed does.

    Raises:
        TypeError: If the model is none.
        ValueError: If the layout is none of the two, or the model has experts.

    Example:
        >>> from attnlib import TRAINED
        >>> model = LanguageModel(TRAINED["shakespeare"], pairing="half")
        >>> step = DecodeStep(model)
        >>> step.nbytes < sum(weight.nbytes for weight in model.parameters())
        True
    """

    def __init__(self, model: LanguageModel, *, layout: str | None = None) -> None:
        if not isinstance(model, LanguageModel):
            raise TypeError(f"model must be a LanguageModel, got {type(model).__name__}")
        if model.sizes.n_expert_layers:
            raise ValueError(
                "model must have one feed-forward network a layer, since a step holds the matrices "
                f"that every token needs, got experts in {model.sizes.name}"
            )
        decoder = model.decoder
        words = decoder.word_embedding.weight
        if layout not in (None, *LAYOUTS):
            raise ValueError(f"layout must be None, 'rows' or 'parts', got {layout!r}")
        self.model = model
        self._weights = [
            (parts, name, weight, weight.data_ptr(), _version(weight))
            for parts in (part._parameters for part in model.modules())
            for name, weight in parts.items()
            if weight is not None
        ]
        with torch.no_grad():
            self._words = words.detach()
            output = words if model.output is None else model.output.weight
            # rows of zeros, so that it can be cut; their logits are left away
            output = F.pad(output, (0, 0, 0, -len(output) % N_PARTS))
            self.layout = faster_layout(output) if layout is None else layout
            held = Matrices([*matrices_of(decoder.blocks), output], self.layout)
            self._layers = [_layer(block, held) for block in decoder.blocks]
            self._head = held.product([output], [None])
            self._norm_of_embedding = _norm(decoder.embedding_norm)
            self._norm_at_end = _norm(decoder.end_norm)
        self.nbytes = held.nbytes

    def __call__(self, tokens: Int[Tensor, "b 1"], *, cache: ModelCache) -> Float[Tensor, "b 1 v"]:
        """Read one new token of each row and give the logits of what follows it.

        The same as `model(tokens, cache=cache)`.

        Args:
            tokens: The next token of each row; padding is none.
            cache: What `new_cache` of the model gave and the tokens before these have filled. After
                an error it is as it was.

        Raises:
            TypeError: As `LanguageModel.forward`.
            ValueError: As `LanguageModel.forward`, and if there is more than one token a row, or
                the model has other weights than when the step was made.
        """
        model, sizes = self.model, self.model.sizes
        check_tokens("tokens", tokens, sizes, None, "is_token")
        if tokens.shape[1] != 1:
            raise ValueError(
                f"a step reads one token a row, got t={tokens.shape[1]}; more at a time are for "
                "the model to read, with the same cache"
            )
        if not self._is_of_the_model_now():
            raise ValueError(
                "the model must have the weights of which the step was made, got others; make a "
                "DecodeStep anew"
            )
        x_b1m = F.embedding(tokens, self._words)
        model.decoder.check_cache(cache, x_b1m, None)
        is_token = cache.is_token_after(None, len(tokens), 1, x_b1m.device)
        if is_token is None:
            positions = torch.full((1,), cache.n_tokens, device=x_b1m.device)
        else:
            positions = is_token.sum(-1, keepdim=True) - 1
        x_b1m = model.decoder.summed(x_b1m, positions).detach()
        if self._norm_of_embedding is not None:
            x_b1m = self._norm_of_embedding(x_b1m)
        calls = self._calls(positions, is_token, cache)
        with cache.writing(is_token):
            for layer, kept, call in zip(self._layers, cache.layers, calls, strict=True):
                x_b1m = layer(x_b1m, kept, *call)
            if self._norm_at_end is not None:
                x_b1m = self._norm_at_end(x_b1m)
            return self._head(x_b1m)[..., : sizes.vocabulary]

    def _is_of_the_model_now(self) -> bool:
        """Whether every weight is where it was, and has not been written to."""
        return all(
            parts.get(name) is weight and weight.data_ptr() == place and _version(weight) == version
            for parts, name, weight, place, version in self._weights
        )

    def _calls(
        self, positions: Tensor, is_token: Tensor | None, cache: ModelCache
    ) -> list[tuple[Tensor | None, Tensor | None]]:
        """Give each layer its rotation and its mask, made once for all with the same window."""
        calls = {}
        decoder = self.model.decoder
        for window, block, kept in zip(decoder.windows, decoder.blocks, cache.layers, strict=True):
            if window not in calls:
                calls[window] = rotation_at(block.attention, positions), _mask(is_token, kept)
        return [calls[window] for window in decoder.windows]


def _version(weight: Tensor) -> int:
    """How often it was written to; a tensor of inference mode does not count that."""
    return 0 if weight.is_inference() else weight._version


def _norm(norm: nn.Module | None) -> Callable[[Tensor], Tensor] | None:
    """Give what norms along the last axis, where the axis before it has the size 1."""
    if norm is None:
        return None
    weight, eps = norm.weight.detach().clone(), norm.eps
    if not isinstance(norm, RMSNorm):
        bias = norm.bias.detach().clone()
        return lambda x: torch.layer_norm(x, weight.shape, weight, bias, eps)
    signs = weight.new_tensor([[1.0], [-1.0]])
    weight = torch.stack([weight, torch.zeros_like(weight)])
    # narrow keeps x and leaves −x away
    return lambda x: torch.layer_norm(x * signs, weight.shape, weight, None, eps).narrow(-2, 0, 1)


def _layer(block: Block, matrices: Matrices) -> Callable[..., Tensor]:
    """Give what a block does to one token a row.

    Functions that hold what they need: looking it up anew for every token takes as long as the
    small products do.
    """
    attention, network, placement = block.attention, block.feed_forward, block.placement
    gated, bent = network.gate is not None, ACTIVATIONS[network.activation]
    inner = network.inner_width

    attended = attention_step(attention, matrices)
    widen = _product(matrices, *([network.gate, network.widen] if gated else [network.widen]))
    narrow = _product(matrices, network.narrow)
    norm, out_norm = map(_norm, (block.attention_norm, block.attention_out_norm))
    network_norm, network_out_norm = map(
        _norm, (block.feed_forward_norm, block.feed_forward_out_norm)
    )

    def worked(x: Tensor) -> Tensor:
        y = widen(x)
        if not gated:
            return bent(y)
        return bent(y.narrow(-1, 0, inner)) * y.narrow(-1, inner, inner)

    def before(x: Tensor, *call: object) -> Tensor:
        x = attended(norm(x), *call, x)
        return narrow(worked(network_norm(x)), x)

    def after(x: Tensor, *call: object) -> Tensor:
        x = norm(attended(x, *call, x))
        return network_norm(narrow(worked(x), x))

    def around(x: Tensor, *call: object) -> Tensor:
        x = x + out_norm(attended(norm(x), *call))
        return x + network_out_norm(narrow(worked(network_norm(x))))

    return {"pre": before, "post": after, "peri": around}[placement]


def attention_step(
    attention: MultiHeadAttention | LatentSelfAttention, matrices: Matrices
) -> Callable[..., Tensor]:
    """Give what an attention layer does to one token a row; with a latent, in the absorbed form.

    What the function is given is not looked at again: a `DecodeStep` has done that.

    Args:
        attention: The layer.
        matrices: With room for the layer's, which are taken in.

    Returns:
        A function of x (b, 1, m), the layer's cache, what `rotation_at` gives, a mask or None, and
        what is to be added to the result or nothing; it appends to the cache.

    Example:
        >>> from attnlib import AttentionSizes, KVCache
        >>> sizes = AttentionSizes(n_query_heads=4, n_kv_heads=2, head_dim=3, value_dim=5)
        >>> layer = MultiHeadAttention(8, sizes)
        >>> held = Matrices(matrices_of(layer), "rows")
        >>> step, x_b1m = attention_step(layer, held), torch.ones(1, 1, 8)
        >>> torch.allclose(step(x_b1m, KVCache(), None, None), layer(x_b1m))
        True
    """
    heads = _latent_heads if isinstance(attention, LatentSelfAttention) else _heads
    read, output = heads(attention, matrices), _product(matrices, attention.output)

    def attended(
        x: Tensor,
        kept: LayerCache,
        rotation: Tensor | None,
        may_attend: Tensor | None,
        added_to: Tensor | None = None,
    ) -> Tensor:
        return output(read(x, kept, rotation, may_attend), added_to)

    return attended


def _product(matrices: Matrices, *linears: nn.Linear) -> Callable[..., Tensor]:
    return matrices.product(*zip(*((x.weight, x.bias) for x in linears), strict=True))


def _heads(attention: MultiHeadAttention, matrices: Matrices) -> Callable[..., Tensor]:
    """Give what the heads read for one token a row, side by side."""
    sizes, scale = attention.sizes, attention.score_scale
    h, g, d, e = sizes.n_query_heads, sizes.n_kv_heads, sizes.head_dim, sizes.value_dim
    n_qk, n_v = (h + g) * d, g * e
    inputs = _product(matrices, attention.query, attention.key, attention.value)
    query_norm, key_norm = map(_norm, (attention.query_norm, attention.key_norm))

    def attended(
        x: Tensor, kept: LayerCache, rotation: Tensor | None, may_attend: Tensor | None
    ) -> Tensor:
        b, qkv = x.shape[0], inputs(x)
        qk = qkv.narrow(-1, 0, n_qk).view(b, h + g, d)
        if query_norm is not None:
            qk = qk.unsqueeze(2)
            qk = torch.cat([query_norm(qk[:, :h]), key_norm(qk[:, h:])], dim=1).squeeze(2)
        if rotation is not None:
            qk = _turned(qk, rotation)
        q, k, v = qk.narrow(1, 0, h), qk.narrow(1, h, g), qkv.narrow(-1, n_qk, n_v)
        k_bgsd, v_bgse = kept.append(k.unsqueeze(2), v.view(b, g, 1, e))
        return _read(q, k_bgsd, v_bgse, may_attend, scale).view(b, 1, h * e)

    return attended


def _latent_heads(attention: LatentSelfAttention, matrices: Matrices) -> Callable[..., Tensor]:
    """Give what the heads read for one token a row, side by side, in the absorbed form."""
    sizes, scale = attention.sizes, attention.score_scale
    h, u, c = sizes.n_query_heads, sizes.query_latent, sizes.kv_latent
    n, r, e = sizes.nope_dim, sizes.rope_dim, sizes.value_dim
    inputs = _product(matrices, attention.query_down, attention.kv_down, attention.rotary_key)
    queries = _product(matrices, attention.query_up)
    up_keys_hnc, up_values_hec = attention.ups(attention.output.weight.dtype)
    towards_keys = matrices.product_of_heads(up_keys_hnc)
    towards_values = matrices.product_of_heads(up_values_hec.mT)
    query_norm, kv_norm = map(_norm, (attention.query_norm, attention.kv_norm))

    def attended(
        x: Tensor, kept: LatentCache, rotation: Tensor | None, may_attend: Tensor | None
    ) -> Tensor:
        b, down = x.shape[0], inputs(x)
        q = queries(query_norm(down.narrow(-1, 0, u))).view(b, h, n + r)
        q_plain, q_turned = q.narrow(-1, 0, n), q.narrow(-1, n, r)
        latent, key = kv_norm(down.narrow(-1, u, c)), down.narrow(-1, u + c, r)
        if rotation is not None:
            key, q_turned = _turned(key, rotation), _turned(q_turned, rotation)
        latent = latent.to(key.dtype)  # under autocast a norm gives fp32
        k_bsw = side_by_side(*kept.append(latent, key))
        q = torch.cat([towards_keys(q_plain), q_turned], dim=-1)
        k_b1sw = k_bsw.unsqueeze(1)  # the values are its first c coordinates
        mean_bhc = _read(q, k_b1sw, k_b1sw, may_attend, scale)[..., :c]
        return towards_values(mean_bhc).reshape(b, 1, h * e)

    return attended


def _read(
    q_bhd: Tensor, k_bgsd: Tensor, v_bgse: Tensor, may_attend: Tensor | None, scale: float
) -> Tensor:
    """Let one target of each head attend."""
    b, h, d = q_bhd.shape
    if may_attend is None and q_bhd.dtype == computing_dtype(q_bhd.dtype):  # not of 16 bits
        g = k_bgsd.shape[1]
        # the p query heads of a key/value head stand where its targets would
        q_bgpd = q_bhd.view(b, g, h // g, d)
        out = F.scaled_dot_product_attention(q_bgpd, k_bgsd, v_bgse, scale=scale)
    else:
        q_bh1d = q_bhd.unsqueeze(2)
        out = grouped_query_attention(q_bh1d, k_bgsd, v_bgse, may_attend=may_attend, scale=scale)
    return out.reshape(b, h, v_bgse.shape[-1])


def _turned(x_bhd: Tensor, rotation: Tensor) -> Tensor:
    """Turn all heads of a row alike, in the dtype of the rotation, which is at least fp32."""
    if rotation.ndim == 2 and rotation.dtype == x_bhd.dtype:
        return torch.mm(x_bhd.reshape(-1, x_bhd.shape[-1]), rotation).view(x_bhd.shape)
    return (x_bhd.to(rotation.dtype) @ rotation).to(x_bhd.dtype)


def rotation_at(
    attention: MultiHeadAttention | LatentSelfAttention, positions: Int[Tensor, "*b t"]
) -> Float[Tensor, "*b d d"] | None:
    """Give the matrix that turns the heads of a row; one for each row where these differ.

    Args:
        attention: The layer.
        positions: Of the one token of each row, t = 1.

    Returns:
        In the dtype of the turns, at least fp32; None where there are no rotary positions. With a
        latent it is as wide as what turns.

    Example:
        >>> from attnlib import AttentionSizes
        >>> from attnlib.sizes import RotarySizes
        >>> sizes = AttentionSizes(n_query_heads=1, n_kv_heads=1, head_dim=2, value_dim=2)
        >>> layer = MultiHeadAttention(2, sizes, rotary=RotarySizes(base=1e4), pairing="half")
        >>> rotation_at(layer, torch.tensor([1]))  # by one radian
        tensor([[ 0.5403,  0.8415],
                [-0.8415,  0.5403]])
    """
    turns, pairing, sizes = attention.turns(positions), attention.pairing, attention.sizes
    if turns is None:
        return None
    width = sizes.rope_dim if isinstance(sizes, LatentAttentionSizes) else sizes.head_dim
    identity = torch.eye(width, dtype=turns.cos.dtype, device=turns.cos.device)
    rows = identity[:, None].expand(*positions.shape[:-1], -1, -1, -1)
    return turn_by(rows, turns, pairing=pairing).squeeze(-2)


def _mask(is_token: Tensor | None, kept: LayerCache) -> Tensor | None:
    """Leave padding away. What a ring keeps for one token is its window and nothing else."""
    return None if is_token is None else is_token[:, None, None, kept.places(1, is_token.device)]
