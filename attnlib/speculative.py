r"""Speculative decoding: a small model guesses some tokens, and the large one checks them at once.

Source   Leviathan et al. 2022, arXiv:2211.17192, section 2; Chen et al. 2023, arXiv:2302.01318,
         section 2
Chapter  chapters/kv-caching.md
Axes     attnlib/axes.py

One step of the large model reads all its weights, whether it reads one token or five. So a draft
model, which costs little, writes a few tokens ahead, and the large one reads them as one chunk. Its
own choices after each of them show how many of the guesses were right; the first wrong one is
replaced. Both caches then take back what was read in vain, which is what `truncate` is for.

    >>> from attnlib import PUBLISHED
    >>> from dataclasses import replace
    >>> sizes = replace(PUBLISHED["gpt-2"], n_layers=1, vocabulary=11, context=16)
    >>> model = LanguageModel(sizes)
    >>> done = speculative_generate(model, model, [3, 1, 4], 7, n_draft=3)
    >>> len(done.tokens), done.n_chunks, done.acceptance_rate  # a model agrees with itself
    (7, 2, 1.0)
"""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from attnlib.caches import ModelCache
from attnlib.models import LanguageModel
from attnlib.require import at_least
from attnlib.sampling import check_choice
from attnlib.token_checks import list_of_ids
from attnlib.token_rows import check_model, check_room, in_mode, rows_of

__all__ = ["Speculation", "speculative_generate"]


@dataclass(frozen=True, kw_only=True)
class Speculation:
    """What came out, and how good the guesses were.

    Args:
        tokens: The new ids.
        n_chunks: How often the large model was asked; without a draft it would be once a token.
        n_drafted: How many tokens were guessed.
        n_accepted: How many of them the large model would have chosen, too.
    """

    tokens: list[int]
    n_chunks: int
    n_drafted: int
    n_accepted: int

    @property
    def acceptance_rate(self) -> float:
        """The share of the guesses that were right; NaN where there were none.

        Example:
            >>> Speculation(tokens=[5, 7], n_chunks=1, n_drafted=4, n_accepted=1).acceptance_rate
            0.25
        """
        return self.n_accepted / self.n_drafted if self.n_drafted else float("nan")


def speculative_generate(
    model: LanguageModel,
    draft: LanguageModel,
    tokens: Sequence[int] | Int[Tensor, "t"],
    n_new: int,
    *,
    n_draft: int = 4,
) -> Speculation:
    r"""Continue one row greedily by the tokens of the large model, with the help of a small one.

    $$w_{t+1} = \operatorname{argmax}_w p(w \mid w_1, \dots, w_t)$$

    The tokens are those of `generate(model, [tokens], n_new)`, whatever the draft guesses, up to
    the rounding of the logits: a chunk rounds otherwise than its tokens one by one.

    Args:
        model: Whose tokens are wanted.
        draft: What guesses; of the same vocabulary.
        tokens: What the row begins with, at least one token.
        n_new: How many new tokens are wanted, from 0.
        n_draft: How many of them are guessed at a time, from 1.

    Raises:
        TypeError: If a model is no LanguageModel or a number not whole.
        ValueError: If the vocabularies differ, a number is outside its range, the row has no token
            or gets longer than a context or than a window, whose ring could not take tokens back.
        FloatingPointError: As `generate`; the step counts the tokens of the prompt, too.
    """
    for name, x in (("model", model), ("draft", draft)):
        if not isinstance(x, LanguageModel):
            raise TypeError(f"{name} must be a LanguageModel, got {type(x).__name__}")
        check_model(x, None, None)
    v = model.sizes.vocabulary
    if draft.sizes.vocabulary != v:
        raise ValueError(
            "model and draft must have the same vocabulary, got "
            f"v={v} and v={draft.sizes.vocabulary}"
        )
    (row,) = rows_of("tokens", [list_of_ids(tokens, "tokens")], None, v)
    n_new, n_draft = at_least("n_new", n_new, 0), at_least("n_draft", n_draft, 1)
    _require_room(model, draft, len(row), n_new)
    new, n_chunks, n_drafted, n_accepted = [], 0, 0, 0
    with ExitStack() as stack:
        for x in (model, draft):
            stack.enter_context(in_mode(x, False))
        stack.enter_context(torch.inference_mode())
        cache, draft_cache = model.new_cache(), draft.new_cache()
        while len(new) < n_new:
            text = row + new
            guesses = []
            for _ in range(min(n_draft, n_new - len(new) - 1)):
                guesses += _choices(draft, draft_cache, text + guesses)[-1:]
            # after the last token of the text, and after each guess
            chosen = _choices(model, cache, text + guesses)[-len(guesses) - 1 :]
            n_right = 0
            while n_right < len(guesses) and guesses[n_right] == chosen[n_right]:
                n_right += 1
            new += chosen[: n_right + 1]
            for x in (cache, draft_cache):
                x.truncate(min(x.n_tokens, len(text) + n_right))
            n_chunks += 1
            n_drafted += len(guesses)
            n_accepted += n_right
    return Speculation(tokens=new, n_chunks=n_chunks, n_drafted=n_drafted, n_accepted=n_accepted)


def _choices(model: LanguageModel, cache: ModelCache, text: list[int]) -> list[int]:
    """The likeliest token after each that is not in the cache yet; of equal ones the lowest id."""
    chunk = text[cache.n_tokens :]
    tokens = torch.tensor([chunk], device=next(model.parameters()).device)
    logits_tv = model(tokens, cache=cache)[0]
    check_choice(logits_tv, [0] * len(chunk), len(text))
    return logits_tv.argmax(-1).tolist()


def _require_room(model: LanguageModel, draft: LanguageModel, t: int, n_new: int) -> None:
    n = t + max(n_new - 1, 0)  # the last new token need not be read
    for name, x in (("model", model), ("draft", draft)):
        check_room(t, n_new, x.sizes.context, name)
        window = x.sizes.window
        if window is not None and n > window:
            raise ValueError(
                f"t + n_new - 1 must be at most the window of the {name}, since its ring could not "
                f"take back more, got t={t}, n_new={n_new} and window={window}"
            )
