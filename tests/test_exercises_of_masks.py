"""The judges of chapters/masking.md: what is right passes, what is wrong has a name."""

import numpy as np
import pytest
import torch

import attnlib
from attnlib import definitions, exercises
from attnlib.exercises import Mistake


def refused(name, function) -> str:
    with pytest.raises(Mistake) as caught:
        exercises.check(name, function)
    return str(caught.value)


def test_the_chapter_has_its_exercises():
    wanted = {"causal-mask", "window-mask", "document-mask", "masked-weights", "reach"}
    assert wanted <= set(exercises.names())


# --- right functions, in NumPy and in torch -----------------------------------------------


def causal_in_loops(n_targets, n_sources):
    first = n_sources - n_targets
    return [[s <= first + t for s in range(n_sources)] for t in range(n_targets)]


def window_in_numpy(n_targets, n_sources, window):
    all_pairs = np.ones((n_targets, n_sources), bool)
    last = n_sources - n_targets
    return np.tril(all_pairs, last) & np.triu(all_pairs, last - window + 1)


def window_of_the_package(n_targets, n_sources, window):
    return attnlib.causal_mask(n_targets, n_sources, window=window)


def documents_in_torch(document):
    same = document[:, None] == document[None, :]
    return same & torch.ones(same.shape).tril().bool()


def documents_of_the_package(document):
    document = torch.as_tensor(document)
    return attnlib.document_mask(document[None])[0, 0] & attnlib.causal_mask(len(document))


def weights_in_numpy(scores, may_attend):
    scores = np.where(may_attend, scores, -np.inf)
    largest = scores.max(-1, keepdims=True, initial=-1e300)
    exponentials = np.exp(scores - largest)
    total = exponentials.sum(-1, keepdims=True)
    return exponentials / np.where(total > 0, total, 1)


def weights_without_nan(scores, may_attend):
    scores = scores.masked_fill(~may_attend, -torch.inf)
    return torch.softmax(scores, -1).nan_to_num(0.0)


def reach_by_steps(n_layers, window):
    reached = {0}
    for _ in range(n_layers):
        reached = {place - back for place in reached for back in range(window)}
    return len(reached)


def reach_of_the_package(n_layers, window):
    mask = reached = attnlib.causal_mask(50, window=window)
    for _ in range(n_layers - 1):
        reached = attnlib.compose_masks(mask, reached)
    return reached[-1].sum()


@pytest.mark.parametrize(
    "name,function",
    [
        ("causal-mask", causal_in_loops),
        ("causal-mask", lambda t, s: np.tril(np.ones((t, s), bool), k=s - t)),
        ("causal-mask", lambda t, s: torch.ones(t, s).tril(s - t).bool()),
        ("causal-mask", attnlib.causal_mask),
        ("window-mask", window_in_numpy),
        ("window-mask", window_of_the_package),
        ("document-mask", documents_in_torch),
        ("document-mask", documents_of_the_package),
        ("document-mask", lambda document: np.tril(np.equal.outer(document, document))),
        ("masked-weights", weights_in_numpy),
        ("masked-weights", weights_without_nan),
        ("masked-weights", lambda scores, may: attnlib.softmax(scores, may)),
        ("reach", reach_by_steps),
        ("reach", reach_of_the_package),
    ],
)
def test_other_right_functions_are_accepted(name, function, capsys):
    exercises.check(name, function)
    assert capsys.readouterr().out.startswith("Right: ")


# --- wrong functions, as readers write them -----------------------------------------------


def rows_filled_up_to_the_target(n_targets, n_sources):
    mask = np.zeros((n_targets, n_sources), bool)
    for t in range(n_targets):
        mask[t, : t + 1 + n_sources - n_targets] = True  # counts from the end where it is negative
    return mask


def additive(n_targets, n_sources):
    return np.triu(np.full((n_targets, n_sources), -np.inf), k=n_sources - n_targets + 1)


def blocked(n_targets, n_sources):
    return torch.ones(n_targets, n_sources).triu(n_sources - n_targets + 1).bool()


def mask_after_softmax(scores, may_attend):
    return torch.softmax(scores, -1) * may_attend


def mask_times_scores(scores, may_attend):
    return torch.softmax(scores * may_attend, -1)


def large_negative(scores, may_attend):
    return torch.softmax(scores.masked_fill(~may_attend, -1e9), -1)


def thousand_below_zero(scores, may_attend):
    return torch.softmax(scores.masked_fill(~may_attend, -1e3), -1) * may_attend


def large_negative_added(scores, may_attend):
    return torch.softmax(scores + ~may_attend * -1e4, -1)


def infinity_times_the_mask(scores, may_attend):
    return torch.softmax(scores + ~may_attend * -torch.inf, -1)


def least_number(scores, may_attend):
    return torch.softmax(scores.masked_fill(~may_attend, torch.finfo(scores.dtype).min), -1)


def without_a_guard(scores, may_attend):
    return torch.softmax(scores.masked_fill(~may_attend, -torch.inf), -1)


def over_the_targets(scores, may_attend):
    return torch.softmax(scores.masked_fill(~may_attend, -torch.inf), 0).nan_to_num(0.0)


def largest_of_all(scores, may_attend):
    exponentials = np.exp(scores - scores.max(-1, keepdims=True)) * may_attend
    return exponentials / exponentials.sum(-1, keepdims=True)


def one_document_after_the_other(document):
    starts = np.flatnonzero(np.diff(document, prepend=document[0] - 1))
    mask = np.zeros((len(document), len(document)), bool)
    for start, end in zip(starts, [*starts[1:], len(document)], strict=True):
        mask[start:end, start:end] = np.tril(np.ones((end - start, end - start)))
    return mask


@pytest.mark.parametrize(
    "name,function,says",
    [
        (
            "causal-mask",
            lambda t, s: np.tril(np.ones((s, t), bool), t - s).T,
            "the mask is transposed, and rules out the past in place of the future: target 0 may "
            "read source 4.",
        ),
        (
            "causal-mask",
            lambda t, s: np.tril(np.ones((t, s), bool)),
            "the diagonal starts top left: target 0 may not read source 3",
        ),
        (
            "causal-mask",
            lambda t, s: np.tril(np.ones((t, s), bool), s - t + 1),
            "one source too far: target 0 may read source 1, which is the next one",
        ),
        (
            "causal-mask",
            lambda t, s: np.tril(np.ones((t, s), bool), s - t - 1),
            "a target must read itself too: target 0 may not read source 0",
        ),
        (
            "causal-mask",
            lambda t, s: np.tril(np.ones((t, s), bool), max(s - t, 0)),
            "right but for more targets than sources: target 0 may read source 0",
        ),
        (
            "causal-mask",
            lambda t, s: np.tril(np.ones((t, s), bool), s - t).T,
            "the mask is transposed: target 0 may read source 4. Rows are targets",
        ),
        (
            "causal-mask",
            rows_filled_up_to_the_target,
            "more targets than sources (n_targets = 5, n_sources = 3): result[0, 0] must be False",
        ),
        ("causal-mask", blocked, "True means that a source may be read, and target 0 may"),
        ("causal-mask", additive, "that is the additive form, with 0 and −∞; return booleans"),
        (
            "window-mask",
            lambda t, s, w: window_in_numpy(t, s, w + 1),
            "W + 1 sources: target 3 may read source 0. The target itself is one of the W = 3",
        ),
        (
            "window-mask",
            lambda t, s, w: window_in_numpy(t, s, w - 1),
            "W − 1 sources: target 2 may not read source 0, though W = 3",
        ),
        (
            "window-mask",
            lambda t, s, w: attnlib.window_mask(t, s, window=w),
            "the window lies on both sides: target 0 may read source 2",
        ),
        (
            "window-mask",
            lambda t, s, w: attnlib.causal_mask(t, window=w) if t == s else np.tri(t, s) > 0,
            "result[0, 0] must be False, got True",
        ),
        (
            "document-mask",
            lambda document: document[:, None] == document,
            "the mask is not causal: target 0 may read source 2",
        ),
        (
            "document-mask",
            lambda document: np.tri(len(document)) > 0,
            "documents are not kept apart: target 3 may read source 2",
        ),
        (
            "document-mask",
            one_document_after_the_other,
            "a document that returns is taken for another one: target 4 may not read source 1",
        ),
        ("masked-weights", mask_after_softmax, "the mask comes after the softmax"),
        ("masked-weights", mask_times_scores, "the mask is multiplied into the scores"),
        ("masked-weights", large_negative, "makes its row uniform, and zeros are wanted"),
        ("masked-weights", least_number, "makes its row uniform, and zeros are wanted"),
        (
            "masked-weights",
            thousand_below_zero,
            "scores in the thousands (scores (2, 3), may_attend (2, 3)): result[1, 0] must be 0.73",
        ),
        ("masked-weights", large_negative_added, "added to all of its scores changes none of its"),
        ("masked-weights", infinity_times_the_mask, "every weight is NaN, since 0 · ∞ is"),
        ("masked-weights", without_a_guard, "0/0 makes its row NaN, and zeros are wanted"),
        ("masked-weights", over_the_targets, "the softmax is over the targets"),
        ("masked-weights", largest_of_all, "Look for the largest score among those that may be"),
        ("masked-weights", lambda scores, may: definitions.masked_weights(scores, may.T), "row 0"),
        ("reach", lambda n_layers, window: n_layers * window, "that is L·W = 10: each layer"),
        ("reach", lambda n_layers, window: window**n_layers, "W to the power of L"),
        ("reach", lambda n_layers, window: n_layers * (window - 1), "it reaches itself too"),
        ("reach", lambda n_layers, window: n_layers * window - 1, "that is L·W − 1"),
        ("reach", lambda n_layers, window: window, "that is the window of one layer"),
    ],
)
def test_what_readers_write_is_told_with_the_numbers_of_the_case(name, function, says):
    assert says in refused(name, function)


def test_the_share_that_is_missing_is_told():
    scores = exercises.judge("masked-weights").cases[0].arguments["scores"]
    weights = definitions.softmax(scores[0])
    message = refused("masked-weights", mask_after_softmax)
    assert message.endswith(f"row 0 sums to {weights[0] + weights[3]:.3g}.")
    assert "row 0 reads source 1." in refused("masked-weights", mask_times_scores)


@pytest.mark.parametrize("kind", [int, float, np.uint8])
def test_zeros_and_ones_are_no_truth_values(kind):
    def in_numpy(n_targets, n_sources):
        return definitions.causal_mask(n_targets, n_sources).astype(kind)

    message = refused("causal-mask", in_numpy)
    assert message == (
        "causal-mask: the numbers 0 and 1 stand where True and False belong; return booleans."
    )
    assert "return booleans" in refused("causal-mask", lambda t, s: torch.ones(t, s).tril(s - t))


def test_wrong_numbers_are_told_before_their_kind():
    assert "result[0, 0] must be True, got 2." in refused(
        "causal-mask", lambda t, s: 2 * definitions.causal_mask(t, s)
    )
    assert "target 0 may read source 4" in refused("causal-mask", lambda t, s: np.ones((t, s)))


def test_a_mask_of_another_shape_is_told_with_both_shapes():
    message = refused("causal-mask", lambda t, s: definitions.causal_mask(t, s)[None])
    assert "as many targets as sources (n_targets = 5, n_sources = 5): the result" in message
    assert "must have shape (5, 5), got (1, 5, 5)." in message


SOLUTIONS = {
    "causal-mask": ["s <= ", "s ≤ ", "tril", "n_sources − n_targets", "t + n_s"],
    "window-mask": ["s < W", "t − s", "tril", "n_sources − n_targets"],
    "document-mask": ["document[t] =", "document[:, None]", "tril"],
    "masked-weights": ["where(may", "masked_fill", "nan_to_num", "softmax("],
    "reach": ["L(W", "L·(W − 1)", "L·W − L + 1", "(W − 1) + 1", "W − 1) + 1"],
}


@pytest.mark.parametrize("name", SOLUTIONS)
def test_no_message_holds_the_solution(name):
    exercise = exercises.judge(name)
    for text in (exercise.asks, *exercise.mistakes):
        for code in ("np.", "torch.", "einsum", "return x", " @ ", "lambda", *SOLUTIONS[name]):
            assert code not in text
