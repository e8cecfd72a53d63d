r"""Likelihood: how probable a model finds a text, in nats, as a perplexity and in bits per byte.

Source   Shannon 1951, "Prediction and Entropy of Printed English"; Jelinek et al. 1977,
         "Perplexity: a measure of the difficulty of speech recognition tasks"
Chapter  chapters/language-models.md
Axes     attnlib/axes.py

$$\log p(w_2, \dots, w_t \mid w_1) = \sum_{i=2}^{t} \log p(w_i \mid w_1, \dots, w_{i-1})$$

The first token of a row is read and not predicted. To have the first token of a text predicted,
put one before it that begins texts.
"""

import math
from collections.abc import Iterator, Sequence
from itertools import groupby, islice

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from attnlib.models import EncoderDecoder, LanguageModel
from attnlib.progress import progress_bar
from attnlib.require import at_least, between
from attnlib.tensor_checks import kind_of
from attnlib.token_checks import list_of_ids
from attnlib.token_rows import check_model, in_mode, rows_of
from attnlib.training import shifted

__all__ = ["bits_per_byte", "perplexity", "text_windows", "token_log_probabilities"]


def token_log_probabilities(
    model: LanguageModel | EncoderDecoder,
    tokens: Int[Tensor, "b t"],
    *,
    is_token: Bool[Tensor, "b t"] | None = None,
    source: Int[Tensor, "b s"] | None = None,
    is_source: Bool[Tensor, "b s"] | None = None,
) -> Float[Tensor, "b t-1"]:
    r"""Give the logarithm of the probability of each token, given those before it in its row.

    Entry i is that of token i + 1. Where there is no token to predict, in padding and at a row's
    first token, it is 0, so that a sum over a row is the logarithm of the row's probability.

    The model is in evaluation mode meanwhile and takes no gradients; `training.cross_entropy` is
    what has them.

    Args:
        model: A language model, or an encoder–decoder with a source.
        tokens: Rows of at least 2 places, of which the model reads all but the last.
        is_token: False where a row is filled up, on one side or both; None if nowhere.
        source: What an encoder–decoder translates.
        is_source: False where a source is filled up; None if nowhere.

    Returns:
        Nats, at most 0, in at least fp32.

    Raises:
        TypeError: If an argument is of another kind than that.
        ValueError: If a row is too short, too long for the model, without a token, or with padding
            between its tokens; if a source is without a token, an id is outside the vocabulary or
            the shapes differ.

    Example:
        >>> from attnlib import PUBLISHED, LanguageModel
        >>> from dataclasses import replace
        >>> sizes = replace(PUBLISHED["gpt-2"], n_layers=1, vocabulary=10, context=8)
        >>> model = LanguageModel(sizes)
        >>> for parameter in model.parameters():  # knows nothing: each of ten is equally likely
        ...     _ = parameter.data.zero_()
        >>> token_log_probabilities(model, torch.tensor([[3, 1, 4]]))
        tensor([[-2.3026, -2.3026]])
    """
    counts = _require(model, tokens, is_token, source, is_source)
    inputs, targets = shifted(tokens)
    is_input = None if is_token is None else is_token[:, :-1]

    with in_mode(model, False), torch.no_grad():
        if source is None:
            logits_btv = model(inputs, is_token=is_input)
        else:
            logits_btv = model(source, inputs, is_source=is_source, is_token=is_input)
        logits_btv = logits_btv.to(torch.promote_types(logits_btv.dtype, torch.float32))
        nats = F.cross_entropy(logits_btv.flatten(0, 1), targets.flatten().long(), reduction="none")
    return torch.where(counts, -nats.view(targets.shape), 0.0)


def perplexity(
    model: LanguageModel | EncoderDecoder,
    tokens: Int[Tensor, "b t"],
    *,
    is_token: Bool[Tensor, "b t"] | None = None,
    source: Int[Tensor, "b s"] | None = None,
    is_source: Bool[Tensor, "b s"] | None = None,
) -> float:
    r"""Give e to the mean surprise: among how many equally likely tokens the model seems to choose.

    $$\exp\Bigl(-\frac1n \sum_{i=1}^{n} \log p(w_i \mid w_{<i})\Bigr)$$

    The mean is over all tokens that are predicted, of all rows. It depends on how a text is cut
    into tokens: perplexities of models with different tokenizers cannot be compared, bits per byte
    can.

    Args:
        model: As in `token_log_probabilities`.
        tokens: As in `token_log_probabilities`; at least one token must be predicted.
        is_token: As in `token_log_probabilities`.
        source: As in `token_log_probabilities`.
        is_source: As in `token_log_probabilities`.

    Raises:
        TypeError: As `token_log_probabilities`.
        ValueError: As `token_log_probabilities`, and if no token is predicted.

    Example:
        >>> from attnlib import PUBLISHED, LanguageModel
        >>> from dataclasses import replace
        >>> sizes = replace(PUBLISHED["gpt-2"], n_layers=1, vocabulary=10, context=8)
        >>> model = LanguageModel(sizes)
        >>> for parameter in model.parameters():
        ...     _ = parameter.data.zero_()
        >>> round(perplexity(model, torch.tensor([[3, 1, 4]])), 4)
        10.0
    """
    n_predicted = int(_require(model, tokens, is_token, source, is_source).sum())
    if n_predicted == 0:
        raise ValueError("a mean needs at least 1 token that is predicted, got 0")
    log_p = token_log_probabilities(
        model, tokens, is_token=is_token, source=source, is_source=is_source
    )
    return (-log_p.double().sum() / n_predicted).exp().item()  # inf where math.exp would fail


def bits_per_byte(
    model: LanguageModel,
    ids: Sequence[int] | Int[Tensor, " n"],
    n_bytes: int,
    *,
    context: int | None = None,
    stride: int | None = None,
    batch_size: int = 8,
    progress: bool | None = None,
) -> float:
    r"""Give the bits that the model needs for each byte of a long text.

    $$\frac{1}{\text{bytes}} \sum_i -\log_2 p(w_i \mid \text{what its window holds before it})$$

    The text is read in windows as `text_windows` lays them; every token but the first is predicted
    exactly once. With a smaller stride more stands before it, which mostly means fewer bits, at the
    price of more work.

    Args:
        model: A language model.
        ids: The tokens of the text; the first is read and not predicted.
        n_bytes: How many bytes the predicted tokens stand for.
        context: How many tokens a window reads; None takes the model's context.
        stride: By how much windows move; None takes half the context, rounded up.
        batch_size: How many windows are read at once.
        progress: True shows a bar, False none, None where somebody watches a long run.

    Raises:
        TypeError: If the model is no LanguageModel or a number is not whole.
        ValueError: If there are fewer than 2 ids, one is outside the vocabulary, or a number is
            outside its range.

    Example:
        >>> from attnlib import PUBLISHED, LanguageModel
        >>> from dataclasses import replace
        >>> sizes = replace(PUBLISHED["gpt-2"], n_layers=1, vocabulary=256, context=8)
        >>> model = LanguageModel(sizes)
        >>> for parameter in model.parameters():
        ...     _ = parameter.data.zero_()
        >>> text = b"knows nothing, so that a byte takes eight bits"
        >>> round(bits_per_byte(model, [0, *text], len(text)), 4)
        8.0
    """
    if not isinstance(model, LanguageModel):
        raise TypeError(f"model must be a LanguageModel, got {type(model).__name__}")
    (ids,) = rows_of("ids", [list_of_ids(ids)], None, model.sizes.vocabulary)
    n_bytes = at_least("n_bytes", n_bytes, 1)
    most = model.sizes.context
    context = most if context is None else between("context", context, 1, most)
    stride = -(-context // 2) if stride is None else between("stride", stride, 1, context)
    batch_size = at_least("batch_size", batch_size, 1)
    windows = text_windows(len(ids), context, stride)
    text, nats = torch.tensor(ids, device=next(model.parameters()).device), 0.0
    with progress_bar(len(windows), "windows", progress) as on_done:
        for batch in _batches(windows, batch_size):
            tokens = torch.stack([text[start:stop] for start, stop, _ in batch])
            log_p = token_log_probabilities(model, tokens).double()
            for row, (_, _, n_predicted) in zip(log_p, batch, strict=True):
                nats -= row[-n_predicted:].sum().item()
                on_done()
    return nats / math.log(2) / n_bytes


def text_windows(n: int, context: int, stride: int) -> list[tuple[int, int, int]]:
    r"""Lay windows over a text so that each token but the first is predicted exactly once.

    A window reads `context` tokens and the next one begins `stride` later. Its last tokens are
    predicted, those that no window before it has: all in the first window, `stride` of them
    afterwards, what is left in the last. Before each of these stand at least
    `context` − `stride` + 1 tokens of its window, or else the whole text before it.

    Args:
        n: How many tokens the text has, at least 2.
        context: How many tokens a window reads.
        stride: By how much windows move, from 1 to `context`.

    Returns:
        For each window where it starts, where it stops (the last token that it predicts included)
        and how many tokens it predicts.

    Raises:
        TypeError: If a number is not whole.
        ValueError: If a number is outside its range.

    Example:
        >>> text_windows(9, context=4, stride=2)  # predicts 1 2 3 4, then 5 6, then 7 8
        [(0, 5, 4), (2, 7, 2), (4, 9, 2)]
    """
    n, context = at_least("n", n, 2), at_least("context", context, 1)
    stride = between("stride", stride, 1, context)
    windows, done = [], 1
    for start in range(0, n, stride):
        stop = min(start + context + 1, n)
        windows.append((start, stop, stop - done))
        done = stop
        if done == n:
            break
    return windows


def _require(
    model: LanguageModel | EncoderDecoder,
    tokens: Tensor,
    is_token: Tensor | None,
    source: Tensor | None,
    is_source: Tensor | None,
) -> Tensor:
    """Refuse what cannot be scored; say where a token with one before it is predicted."""
    check_model(model, source, is_source)
    rows_of("tokens", tokens, is_token, model.sizes.vocabulary)
    if source is not None:
        if not isinstance(source, Tensor):
            raise TypeError(f"source must be a tensor, got {kind_of(source)}")
        rows_of("source", source, is_source, model.sizes.vocabulary)
    inputs, targets = shifted(tokens)
    if inputs.shape[1] > model.sizes.context:
        raise ValueError(
            f"t - 1 must be at most the context that the model reads, got t={tokens.shape[1]} and "
            f"context={model.sizes.context}"
        )
    if is_token is None:
        return torch.ones_like(targets, dtype=torch.bool)
    n_parts = (is_token[:, 1:] & ~is_token[:, :-1]).sum(-1) + is_token[:, 0]
    if (n_parts > 1).any():
        raise ValueError(
            "the tokens of a row must stand together, got padding between them in row "
            f"{int(n_parts.argmax())}"
        )
    return is_token[:, 1:] & is_token[:, :-1]


def _batches(
    windows: list[tuple[int, int, int]], most: int
) -> Iterator[list[tuple[int, int, int]]]:
    """Windows of one length together; only the last can be shorter."""
    for _, alike in groupby(windows, key=lambda window: window[1] - window[0]):
        while batch := list(islice(alike, most)):
            yield batch
