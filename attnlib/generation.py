r"""Generation: let a model continue rows of tokens, one token after the other.

Source   Vaswani et al. 2017, arXiv:1706.03762, section 3 (auto-regressive); Radford et al. 2019,
         "Language Models are Unsupervised Multitask Learners", section 2
Chapter  chapters/language-models.md
Axes     attnlib/axes.py

    >>> from attnlib import PUBLISHED, LanguageModel
    >>> from dataclasses import replace
    >>> sizes = replace(PUBLISHED["gpt-2"], n_layers=1, vocabulary=11, context=8)
    >>> model = LanguageModel(sizes)
    >>> model.reset_parameters(torch.Generator().manual_seed(0))
    >>> [len(row) for row in generate(model, [[1, 2, 3], [4]], 5)]
    [5, 5]

Each step reads the newest token of each row alone: the keys and values of those before it are in a
cache. Without one it reads every row from its beginning, and gives the same tokens.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from attnlib.fast_decoding import DecodeStep
from attnlib.models import EncoderDecoder, LanguageModel
from attnlib.progress import progress_bar
from attnlib.require import at_least, between
from attnlib.sampling import GREEDY, Sampler, check_choice, draw
from attnlib.token_checks import list_of_ids
from attnlib.token_rows import check_model, check_room, in_mode, pad_left, rows_of

__all__ = ["generate"]

_SEEDS = 1 << 32  # torch's generator on the CPU looks at 32 bits of a seed


def generate(
    model: LanguageModel | EncoderDecoder,
    tokens: Int[Tensor, "b t"] | Sequence[Any],
    n_new: int,
    *,
    source: Int[Tensor, "b s"] | Sequence[Any] | None = None,
    is_source: Bool[Tensor, "b s"] | None = None,
    is_token: Bool[Tensor, "b t"] | None = None,
    use_cache: bool = True,
    step: DecodeStep | None = None,
    sampler: Sampler = GREEDY,
    stop: Sequence[int] = (),
    seed: int | None = None,
    on_token: Callable[[int, int], object] | None = None,
    progress: bool | None = None,
) -> list[list[int]]:
    r"""Continue each row of tokens by new ones, each drawn in view of all before it.

    $$w_{t+1} \sim \operatorname{sampler}\bigl(p(\cdot \mid w_1, \dots, w_t)\bigr)$$

    A row ends with its first token of `stop`, or after `n_new` tokens. What a row becomes depends
    neither on its padding nor on the other rows, up to the rounding of the logits: row i draws with
    a generator of its own, seeded with `seed` + i, one uniform number in fp64 a step. So row i of a
    batch is what generating it alone gives with that seed.

    The model is in evaluation mode meanwhile (no dropout), takes no gradients, and gets its mode
    back at the end, however that comes.

    Args:
        model: A language model, or an encoder–decoder with a source.
        tokens: What the rows begin with, at least one token each. Rows of different lengths are
            given as a list of rows of ids, or padded in a tensor with `is_token`.
        n_new: The most new tokens a row gets, from 0.
        source: What an encoder–decoder translates, one row for each row of tokens; it is encoded
            once.
        is_source: False where a source in a tensor is filled up; None if nowhere.
        is_token: False where a row in a tensor is filled up; None if nowhere.
        use_cache: Whether the keys and values of a row are kept from one step to the next. What is
            generated is the same, up to the rounding of the logits; without, every step reads the
            rows from their beginning.
        step: A `DecodeStep` of the model, made beforehand, that reads every new token in its place;
            only with a cache. What is generated is the same, up to the rounding of the logits.
        sampler: How a token is chosen; `GREEDY` takes the likeliest.
        stop: The ids that end a row.
        seed: Of the first row, from 0 and below 2³² less the number of rows. None takes one from
            torch's own state of chance.
        on_token: Called with the number of the row and the new id, for each of them, row by row in
            each step: a stream.
        progress: True shows a bar, False none, None where somebody watches a long generation.

    Returns:
        The new ids of each row, the token that ended it last.

    Raises:
        TypeError: If an argument is of another kind than that.
        ValueError: If a row has no token or one outside the vocabulary, the rows of source and
            tokens do not go together, or the model would have to read more than its context.
        FloatingPointError: If the model's logits are NaN or +∞, or −∞ for all tokens.

    Example:
        >>> from attnlib import PUBLISHED, LanguageModel
        >>> from dataclasses import replace
        >>> sizes = replace(PUBLISHED["gpt-2"], n_layers=1, vocabulary=11, context=8)
        >>> model = LanguageModel(sizes)
        >>> model.reset_parameters(torch.Generator().manual_seed(0))
        >>> sampler = Sampler(temperature=0.8)
        >>> both = generate(model, [[1, 2, 3], [4]], 5, sampler=sampler, seed=7)
        >>> both[1] == generate(model, [[4]], 5, sampler=sampler, seed=8)[0]
        True
    """
    check_model(model, source, is_source)
    sizes = model.sizes
    rows = rows_of("tokens", tokens, is_token, sizes.vocabulary)
    sources = None if source is None else rows_of("source", source, is_source, sizes.vocabulary)
    n_new = at_least("n_new", n_new, 0)
    _require_room(rows, n_new, sources, sizes.context)
    if not isinstance(use_cache, bool):
        raise TypeError(f"use_cache must be True or False, got {use_cache!r}")
    _require_step(step, model, use_cache)
    if not isinstance(sampler, Sampler):
        raise TypeError(f"sampler must be a Sampler, got {type(sampler).__name__}")
    ends = {between("an id of stop", x, 0, sizes.vocabulary - 1) for x in list_of_ids(stop, "stop")}
    if on_token is not None and not callable(on_token):
        raise TypeError(f"on_token must be a function, got {type(on_token).__name__}")
    generators = _generators(sampler, seed, len(rows))
    if n_new == 0 or not rows:
        return [[] for _ in rows]

    new: list[list[int]] = [[] for _ in rows]
    running = list(range(len(rows)))
    with in_mode(model, False), progress_bar(n_new, "tokens", progress) as on_done:
        logits_of = _Reader(model, sources, use_cache, step)
        for count in range(1, n_new + 1):
            logits_bv = logits_of([rows[i] + new[i] for i in running], running)
            check_choice(logits_bv, running, count)
            uniforms = [
                torch.rand((), generator=generators[i], dtype=torch.float64, device="cpu")
                for i in running
            ]
            chosen = draw(sampler.probabilities(logits_bv), torch.stack(uniforms)).tolist()
            for i, token in zip(running, chosen, strict=True):
                new[i].append(token)
                if on_token is not None:
                    on_token(i, token)
            on_done()
            running = [i for i in running if new[i][-1] not in ends]
            if not running:
                break
    return new


class _Reader:
    """The model, what its encoder made of the sources, and the cache of what it has read."""

    def __init__(
        self,
        model: LanguageModel | EncoderDecoder,
        sources: list[list[int]] | None,
        use_cache: bool,
        step: DecodeStep | None,
    ):
        self.model, self.step = model, step
        self.device = next(model.parameters()).device
        self.read = self.is_source = self.cache = None
        self.numbers: list[int] = []
        with torch.inference_mode():
            if sources is None:
                self.cache = model.new_cache() if use_cache else None
                return
            source, self.is_source = self._batch(sources)
            if use_cache:
                self.cache = model.new_cache(source, is_source=self.is_source)
            else:
                self.read = model.encode(source, is_source=self.is_source)

    def __call__(self, rows: list[list[int]], numbers: list[int]) -> Tensor:
        """The logits after the last token of each row, in fp64 on the CPU, so that all draw alike.

        Args:
            rows: What is to be read, from its beginning.
            numbers: Which rows these are, among those of the first call.
        """
        if self.cache is not None and self.numbers:
            # what was read is kept, and rows that have ended are dropped
            rows = [row[-1:] for row in rows]
            if numbers != self.numbers:
                self.cache.reorder([self.numbers.index(number) for number in numbers])
        self.numbers = numbers
        tokens, is_token = self._batch(rows)
        call = {"is_token": is_token, "cache": self.cache}
        with torch.inference_mode():
            if self.step is not None and self.cache.n_tokens:
                logits_btv = self.step(tokens, cache=self.cache)
            elif isinstance(self.model, LanguageModel):
                x_btm = self.model.decoder(tokens, **call)
                logits_btv = self.model.logits(x_btm[:, -1:])
            else:
                if self.cache is None:
                    is_source = None if self.is_source is None else self.is_source[numbers]
                    call |= {"read": self.read[numbers], "is_source": is_source}
                logits_btv = self.model.decode(tokens, **call)
            return logits_btv[:, -1].cpu().double()

    def _batch(self, rows: list[list[int]]) -> tuple[Tensor, Tensor | None]:
        with self.device:  # whatever torch's default is
            tokens, is_token = pad_left(rows)
        return tokens, None if is_token.all() else is_token


def _require_step(step: DecodeStep | None, model: object, use_cache: bool) -> None:
    if step is None:
        return
    if not isinstance(step, DecodeStep):
        raise TypeError(f"step must be a DecodeStep, got {type(step).__name__}")
    if step.model is not model:
        raise ValueError("step must be a DecodeStep of this model, got one of another")
    if not use_cache:
        raise ValueError("a step reads a cache, got step and use_cache=False")


def _generators(sampler: Sampler, seed: int | None, n_rows: int) -> list[torch.Generator]:
    if seed is None:
        # the likeliest token is no matter of chance, and leaves torch's state as it is
        seed = 0 if sampler.top_k == 1 else int(torch.randint(_SEEDS - n_rows, (), device="cpu"))
    seed = between("seed", seed, 0, _SEEDS - 1 - n_rows)
    return [torch.Generator("cpu").manual_seed(seed + i) for i in range(n_rows)]


def _require_room(
    rows: list[list[int]], n_new: int, sources: list[list[int]] | None, context: int
) -> None:
    if rows:
        check_room(max(map(len, rows)), n_new, context)
    if sources is None:
        return
    if len(sources) != len(rows):
        raise ValueError(
            f"source and tokens must have as many rows, got {len(sources)} and {len(rows)}"
        )
    s = max(map(len, sources), default=0)
    if s > context:
        raise ValueError(f"a row of source must have at most context={context} tokens, got s={s}")
