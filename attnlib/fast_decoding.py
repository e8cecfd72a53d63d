r"""Fast decoding: the step that reads one new token a row, with little to do but read the weights.

Source   Pope et al. 2022, arXiv:2211.05102, section 2 (decoding waits for the weights); this book
Chapter  chapters/kv-caching.md
Axes     attnlib/axes.py

One new token makes a vector of m numbers, and every matrix is read once to multiply it. So a step
takes at least the bytes of the weights over the bandwidth of the memory. A `LanguageModel` takes
more: its parts are made for any number of tokens, look at all they are given, and ask torch for
some hundred things a layer. `DecodeStep` asks for forty and computes the same numbers:

- **One piece of memory.** The matrices stand one after the other in the order in which they are
  read, so that no two reads are far apart.
- **A layout for one vector.** For many tokens a matrix is multiplied in tiles; for one it is only
  read. Which layout is read at the speed of the memory depends on the machine and on the number of
  threads: rows, as `torch.nn.Linear` keeps them, or a transposed copy cut into parts for the
  threads to share. A step measures both when it is made and keeps the faster.
- **Fewer calls.** Query, key and value are one product, and so are `gate` and `widen`; what a
  sub-layer adds is added within its last product.
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

from collections.abc import Callable, Sequence
from functools import partial
from math import gcd

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Float, Int
from torch import Tensor, nn

from attnlib.attention import grouped_query_attention
from attnlib.caches import LayerCache, ModelCache
from attnlib.layers import ACTIVATIONS, Block, RMSNorm
from attnlib.models import LanguageModel
from attnlib.models.inputs import check_tokens
from attnlib.positions import turn_by
from attnlib.sizes import AttentionSizes
from attnlib.softmax import computing_dtype
from attnlib.timing import compare

__all__ = ["LAYOUTS", "DecodeStep"]

LAYOUTS = ("rows", "parts")
_N_PARTS = 16  # more than threads, so that each reads short runs; divides most widths


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
        model: A language model of any kind but one with experts, or with a latent, whose own step
            absorbs matrices.
        layout: As above. None means the faster, measured now with as many threads as torch uses
            now; "rows" on another device than the CPU. The result does not depend on it, but for
            rounding; the speed does.

    Raises:
        TypeError: If the model is none.
        ValueError: If the layout is none of the two.

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
        if not isinstance(model.sizes.attention, AttentionSizes):
            raise ValueError(
                "model must have AttentionSizes, got "
                f"{type(model.sizes.attention).__name__} in {model.sizes.name}; with a latent it "
                "decodes by itself, with its own cache, and absorbs matrices"
            )
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
            output = F.pad(output, (0, 0, 0, -len(output) % _N_PARTS))
            self.layout = _faster_layout(output) if layout is None else layout
            held = _Matrices([*_matrices(decoder.blocks), output], self.layout)
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
                calls[window] = _rotation(block, positions), _mask(is_token, kept)
        return [calls[window] for window in decoder.windows]


def _version(weight: Tensor) -> int:
    """How often it was written to; a tensor of inference mode does not count that."""
    return 0 if weight.is_inference() else weight._version


def _matrices(blocks: nn.ModuleList) -> list[Tensor]:
    return [part.weight for part in blocks.modules() if isinstance(part, nn.Linear)]


class _Matrices:
    """Matrices for products with one vector a row, one after the other in one piece of memory.

    Args:
        weights: All that will stand in it, for the room they take.
        layout: One of `LAYOUTS`.
    """

    def __init__(self, weights: Sequence[Tensor], layout: str) -> None:
        self._free = weights[0].new_empty(sum(weight.numel() for weight in weights))
        self.nbytes = self._free.nbytes
        self._multiply = _by_rows if layout == "rows" else _by_parts

    def product(
        self, weights: Sequence[Tensor], biases: Sequence[Tensor | None]
    ) -> Callable[..., Tensor]:
        """Take in these matrices, one under the other, and give what multiplies by them."""
        weight = torch.cat(weights).detach()
        bias = None if biases[0] is None else torch.cat(biases).detach()
        place, self._free = self._free.tensor_split([weight.numel()])
        return self._multiply(place, weight, bias)


def _by_rows(place: Tensor, weight: Tensor, bias: Tensor | None) -> Callable[..., Tensor]:
    rows = place.view(weight.shape).copy_(weight)

    def multiply(x: Tensor, added_to: Tensor | None = None) -> Tensor:
        y = F.linear(x, rows, bias)
        return y if added_to is None else y + added_to

    return multiply


def _by_parts(place: Tensor, weight: Tensor, bias: Tensor | None) -> Callable[..., Tensor]:
    parts = rearrange(weight, "(part j) i -> part i j", part=gcd(len(weight), _N_PARTS))
    parts = place.view(parts.shape).copy_(parts)
    n_parts, n_in, n_out = parts.shape

    def multiply(x: Tensor, added_to: Tensor | None = None) -> Tensor:
        if x.shape[0] == 1 and bias is None:  # the parts stand in order: fewer calls
            x = x.expand(n_parts, 1, n_in)
            if added_to is None:
                return torch.bmm(x, parts).view(1, 1, -1)
            return torch.baddbmm(added_to.view(n_parts, 1, n_out), x, parts).view(1, 1, -1)
        b = x.shape[0]
        y = torch.bmm(x.transpose(0, 1).expand(n_parts, b, n_in), parts)
        y = y.transpose(0, 1).reshape(b, 1, -1)
        y = y if bias is None else y + bias
        return y if added_to is None else y + added_to

    return multiply


def _faster_layout(weight: Tensor) -> str:
    """Time the product of one vector with a large matrix in each layout."""
    if weight.device.type != "cpu":
        return "rows"
    vector = weight.new_ones(1, 1, weight.shape[1])
    calls = {
        layout: partial(_Matrices([weight], layout).product([weight], [None]), vector)
        for layout in LAYOUTS
    }
    timings = compare(calls, device="cpu")
    return min(timings, key=lambda layout: timings[layout].median_seconds)


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


def _layer(block: Block, matrices: _Matrices) -> Callable[..., Tensor]:
    """Give what a block does to one token a row.

    Functions that hold what they need: looking it up anew for every token takes as long as the
    small products do.
    """
    attention, network, sizes = block.attention, block.feed_forward, block.attention.sizes
    h, g, d, e = sizes.n_query_heads, sizes.n_kv_heads, sizes.head_dim, sizes.value_dim
    n_qk, n_v, inner = (h + g) * d, g * e, network.inner_width
    gated, bent = network.gate is not None, ACTIVATIONS[network.activation]
    scale, placement = attention.score_scale, block.placement
    dtype = attention.query.weight.dtype
    is_exact = dtype == computing_dtype(dtype)  # not of 16 bits

    def product(*linears: nn.Linear) -> Callable[..., Tensor]:
        return matrices.product(*zip(*((x.weight, x.bias) for x in linears), strict=True))

    inputs = product(attention.query, attention.key, attention.value)
    output = product(attention.output)
    widen = product(network.gate, network.widen) if gated else product(network.widen)
    narrow = product(network.narrow)
    norm, out_norm = map(_norm, (block.attention_norm, block.attention_out_norm))
    network_norm, network_out_norm = map(
        _norm, (block.feed_forward_norm, block.feed_forward_out_norm)
    )
    query_norm, key_norm = map(_norm, (attention.query_norm, attention.key_norm))

    def attended(
        x: Tensor, kept: LayerCache, rotation: Tensor | None, may_attend: Tensor | None
    ) -> Tensor:
        b, qkv = x.shape[0], inputs(x)
        qk = qkv.narrow(-1, 0, n_qk)
        if query_norm is not None:
            heads = qk.view(b, h + g, 1, d)
            qk = torch.cat([query_norm(heads[:, :h]), key_norm(heads[:, h:])], dim=1)
        if rotation is not None:
            if is_exact and rotation.ndim == 2:
                qk = torch.mm(qk.reshape(-1, d), rotation)
            else:
                qk = (qk.reshape(b, h + g, d).to(rotation.dtype) @ rotation).to(dtype)
        qk = qk.view(b, h + g, 1, d)
        q, v = qk.narrow(1, 0, h), qkv.narrow(-1, n_qk, n_v).view(b, g, 1, e)
        k_bgsd, v_bgse = kept.append(qk.narrow(1, h, g), v)
        if may_attend is None and is_exact:
            # the p query heads of a key/value head stand where its targets would
            q_bgpd = q.view(b, g, h // g, d)
            out = F.scaled_dot_product_attention(q_bgpd, k_bgsd, v_bgse, scale=scale)
        else:
            out = grouped_query_attention(q, k_bgsd, v_bgse, may_attend=may_attend, scale=scale)
        return out.reshape(b, 1, h * e)

    def worked(x: Tensor) -> Tensor:
        y = widen(x)
        if not gated:
            return bent(y)
        return bent(y.narrow(-1, 0, inner)) * y.narrow(-1, inner, inner)

    def before(
        x: Tensor, kept: LayerCache, rotation: Tensor | None, may_attend: Tensor | None
    ) -> Tensor:
        x = output(attended(norm(x), kept, rotation, may_attend), x)
        return narrow(worked(network_norm(x)), x)

    def after(x: Tensor, *call: object) -> Tensor:
        x = norm(output(attended(x, *call), x))
        return network_norm(narrow(worked(x), x))

    def around(x: Tensor, *call: object) -> Tensor:
        x = x + out_norm(output(attended(norm(x), *call)))
        return x + network_out_norm(narrow(worked(network_norm(x))))

    return {"pre": before, "post": after, "peri": around}[placement]


def _rotation(block: Block, positions: Tensor) -> Tensor | None:
    """Give the matrix that turns the heads of a row; one for each row where these differ."""
    turns, pairing = block.attention.turns(positions), block.attention.pairing
    if turns is None:
        return None
    identity = torch.eye(
        block.attention.sizes.head_dim, dtype=turns.cos.dtype, device=turns.cos.device
    )
    rows = identity[:, None].expand(*positions.shape[:-1], -1, -1, -1)
    return turn_by(rows, turns, pairing=pairing).squeeze(-2)


def _mask(is_token: Tensor | None, kept: LayerCache) -> Tensor | None:
    """Leave padding away. What a ring keeps for one token is its window and nothing else."""
    return None if is_token is None else is_token[:, None, None, kept.places(1, is_token.device)]
