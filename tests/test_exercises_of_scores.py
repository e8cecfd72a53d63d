"""The judges of chapters/variance-scaling.md: what is right passes, what is wrong has a name."""

import numpy as np
import pytest
import torch

from attnlib import exercises
from attnlib.exercises import Mistake


def refused(name, function) -> str:
    with pytest.raises(Mistake) as caught:
        exercises.check(name, function)
    return str(caught.value)


def test_the_chapter_has_its_exercises():
    wanted = {"score-variance", "head-scores", "jacobian-bound", "qk-norm", "soft-cap"}
    assert wanted <= set(exercises.names())


# --- right functions, in NumPy and in torch -----------------------------------------------


def variance_by_einsum(mean_q, cov_q, mean_k, cov_k):
    moments_q = cov_q + np.outer(mean_q, mean_q)
    return np.einsum("ij,ij->", moments_q, cov_k) + np.einsum("i,ij,j->", mean_k, cov_q, mean_k)


def variance_in_torch(mean_q, cov_q, mean_k, cov_k):
    both = torch.trace(cov_q @ cov_k)
    return both + mean_q @ cov_k @ mean_q + mean_k @ cov_q @ mean_k


def variance_from_second_moments(mean_q, cov_q, mean_k, cov_k):
    moments_q, moments_k = (c + np.outer(m, m) for m, c in ((mean_q, cov_q), (mean_k, cov_k)))
    return (moments_q * moments_k).sum() - (mean_q @ mean_k) ** 2


def head_scores_in_numpy(x, w_q, w_k, n_heads):
    d = w_q.shape[1] // n_heads
    scores = []
    for i in range(n_heads):
        own = slice(i * d, (i + 1) * d)
        scores.append((x @ w_q[:, own]) @ (x @ w_k[:, own]).T / d**0.5)
    return scores


def head_scores_in_torch(x, w_q, w_k, n_heads):
    q, k = ((x @ w).unflatten(-1, (n_heads, -1)).movedim(1, 0) for w in (w_q, w_k))
    return torch.einsum("htd,hsd->hts", q * q.shape[-1] ** -0.5, k)


def bound_in_cases(p):
    largest = p.max()
    return largest if largest <= 0.5 else 2 * largest - 2 * largest**2


def normed_in_numpy(q, k, scale):
    lengths = np.outer(np.linalg.norm(q, axis=1), np.linalg.norm(k, axis=1))
    return scale * q.shape[1] * (q @ k.T) / lengths


def normed_in_torch(q, k, scale):
    d = q.shape[-1]
    return scale * torch.nn.functional.rms_norm(q, (d,)) @ torch.nn.functional.rms_norm(k, (d,)).mT


def cap_by_the_logistic_function(scores, cap):
    return 2 * cap / (1 + np.exp(-2 * scores / cap)) - cap


@pytest.mark.parametrize(
    "name,function",
    [
        ("score-variance", variance_by_einsum),
        ("score-variance", variance_in_torch),
        ("score-variance", variance_from_second_moments),
        ("head-scores", head_scores_in_numpy),
        ("head-scores", head_scores_in_torch),
        ("jacobian-bound", bound_in_cases),
        ("jacobian-bound", lambda p: torch.minimum(p.max(), 2 * p.max() * (1 - p.max()))),
        ("qk-norm", normed_in_numpy),
        ("qk-norm", normed_in_torch),
        ("soft-cap", cap_by_the_logistic_function),
        ("soft-cap", lambda scores, cap: cap * torch.tanh(scores.float() / cap)),
    ],
)
def test_other_right_functions_are_accepted(name, function, capsys):
    exercises.check(name, function)
    assert capsys.readouterr().out.startswith("Right: ")


# --- wrong functions, as readers write them -----------------------------------------------


def variance_of_the_paper(mean_q, cov_q, mean_k, cov_k):
    return float(len(mean_q))


def variance_without_means(mean_q, cov_q, mean_k, cov_k):
    return (cov_q * cov_k).sum()


def variance_of_variances(mean_q, cov_q, mean_k, cov_k):
    v_q, v_k = np.diag(cov_q), np.diag(cov_k)
    return (v_q * v_k + mean_q**2 * v_k + mean_k**2 * v_q).sum()


def scores_scaled_by(width):
    def scores(x, w_q, w_k, n_heads):
        q, k = ((x @ w).reshape(len(x), n_heads, -1).transpose(1, 0, 2) for w in (w_q, w_k))
        return q @ k.transpose(0, 2, 1) / np.sqrt(width(x, w_q, n_heads))

    return scores


def scores_scaled_twice(x, w_q, w_k, n_heads):
    q, k = ((x @ w).reshape(len(x), n_heads, -1).transpose(1, 0, 2) for w in (w_q, w_k))
    d = q.shape[-1]
    return (q / d**0.5) @ (k / d**0.5).transpose(0, 2, 1)


def scores_reshaped_straight(x, w_q, w_k, n_heads):
    q, k = ((x @ w).reshape(n_heads, len(x), -1) for w in (w_q, w_k))
    return np.einsum("htd,hsd->hts", q, k) / np.sqrt(q.shape[-1])


def heads_that_take_turns(x, w_q, w_k, n_heads):
    q, k = ((x @ w).reshape(len(x), -1, n_heads) for w in (w_q, w_k))
    return np.einsum("tdh,sdh->hts", q, k) / np.sqrt(q.shape[1])


def normed_by_torch(q, k, scale):
    q, k = (torch.nn.functional.normalize(x, dim=-1) for x in (q, k))
    return scale * q @ k.mT


def normed_and_scaled(q, k, scale):
    q, k = (x / (x**2).mean(-1, keepdims=True) ** 0.5 for x in (q, k))
    return scale * q @ k.T / q.shape[-1] ** 0.5


def normed_over_tokens(q, k, scale):
    q, k = (x / np.sqrt(np.mean(x**2, axis=0)) for x in (q, k))
    return scale * q @ k.T


def layer_normed(q, k, scale):
    d = q.shape[-1]
    q, k = (torch.nn.functional.layer_norm(x, (d,), eps=0.0) for x in (q, k))
    return scale * q @ k.mT


def normed_with_an_epsilon(q, k, scale):
    q, k = (x / (x.pow(2).mean(-1, keepdim=True) + 1e-6).sqrt() for x in (q, k))
    return scale * q @ k.mT


def variance_of_both_means(mean_q, cov_q, mean_k, cov_k):
    return (cov_q * cov_k).sum() + mean_q @ (cov_q + cov_k) @ mean_k


@pytest.mark.parametrize(
    "name,function,says",
    [
        ("score-variance", variance_of_the_paper, "only where both covariances are the identity"),
        ("score-variance", variance_without_means, "right while both means are zero"),
        ("score-variance", variance_of_both_means, "it must meet the same one twice"),
        ("score-variance", variance_of_variances, "right only for uncorrelated coordinates"),
        (
            "head-scores",
            scores_scaled_by(lambda x, w, h: x.shape[1]),
            "the scale uses m = 12 instead of d = 3: a score is a sum of 3 products",
        ),
        (
            "head-scores",
            scores_scaled_by(lambda x, w, h: w.shape[1]),
            "the scale uses h·d = 6 instead of d = 3",
        ),
        (
            "head-scores",
            scores_scaled_by(lambda x, w, h: x.shape[1] / h),
            "the scale uses m/h = 6 instead of d = 3",
        ),
        (
            "head-scores",
            scores_scaled_by(lambda x, w, h: h),
            "the scale uses h = 2, the number of heads, instead of d = 3",
        ),
        ("head-scores", scores_scaled_by(lambda x, w, h: 1), "the scores are not scaled"),
        (
            "head-scores",
            scores_scaled_by(lambda x, w, h: h / w.shape[1]),
            "multiplied by the root of d = 3, not divided",
        ),
        ("head-scores", scores_scaled_twice, "scaled twice"),
        ("head-scores", scores_reshaped_straight, "reshaped straight to (h, t, d)"),
        ("head-scores", heads_that_take_turns, "head i takes the columns i, i + 2, i + 2·2, …"),
        ("jacobian-bound", lambda p: p.max(), "where a weight is above ½ the other is better"),
        (
            "jacobian-bound",
            lambda p: np.abs(np.diag(p) - np.outer(p, p)).sum(1).max(),
            "one of the two bounds, Gershgorin's",
        ),
        ("jacobian-bound", lambda p: 0.5, "½ holds for every p"),
        (
            "jacobian-bound",
            lambda p: np.linalg.norm(np.diag(p) - np.outer(p, p), 2),
            "that is the norm itself",
        ),
        ("qk-norm", normed_by_torch, "divided by its length: with d = 4 coordinates"),
        ("qk-norm", normed_and_scaled, "with d = 4 they are 2.00 times too small"),
        ("qk-norm", normed_over_tokens, "the mean square is taken over the tokens"),
        ("qk-norm", layer_normed, "the mean is taken off first"),
        ("qk-norm", normed_with_an_epsilon, "an ε of 1e-6 is added under the root"),
        ("qk-norm", lambda q, k, scale: scale * q @ k.T, "nothing is normed"),
        ("soft-cap", lambda x, cap: x.clip(-cap, cap), "that is a hard cap"),
        ("soft-cap", lambda x, cap: cap * np.tanh(x), "with cap = 3, small scores grow 3 times"),
        ("soft-cap", lambda x, cap: np.tanh(x / cap), "from −1 to 1, where the cap is 3"),
        (
            "soft-cap",
            lambda x, cap: cap * torch.sigmoid(x / cap),
            "it makes a score of 0 half the cap, 1.5",
        ),
    ],
)
def test_what_readers_write_is_told_with_the_numbers_of_the_case(name, function, says):
    assert says in refused(name, function)


def test_right_in_all_but_one_kind_of_case_is_refused():
    def only_zero_means_of_k(mean_q, cov_q, mean_k, cov_k):
        return ((cov_q + np.outer(mean_q, mean_q)) * cov_k).sum()

    assert "right while k has mean zero" in refused("score-variance", only_zero_means_of_k)
    assert "those far below −cap stay" in refused(
        "soft-cap", lambda x, cap: np.where(x > 0, cap * np.tanh(x / cap), x)
    )


def test_a_mistake_that_fits_only_up_to_the_first_wrong_case_is_told_with_this_case():
    def determinant(mean_q, cov_q, mean_k, cov_k):
        return np.linalg.det(cov_q @ cov_k)  # 1 for unit covariances, as d/d is

    message = refused("score-variance", determinant)
    assert message.startswith(
        "score-variance, means of zero and unit covariances: that is the variance of the scaled"
    )


def test_an_unknown_mistake_shows_numbers_as_they_are_and_arrays_by_shape():
    message = refused("soft-cap", lambda scores, cap: 0 * scores)
    assert "scores of the size of the cap (scores (2, 3), cap = 3.0): result[0, 0] must" in message
    message = refused("head-scores", lambda x, w_q, w_k, n_heads: x)
    assert "two heads (x (4, 12), w_q (12, 6), w_k (12, 6), n_heads = 2): the result" in message


SOLUTIONS = {
    "score-variance": ["tr(Σ_q Σ_k) +", "Σ_q Σ_k + μ", "trace(cov_q @ cov_k) + ", "E[qqᵀ]"],
    "head-scores": ["/ √d", "q kᵀ", "1/√d", "QKᵀ"],
    "jacobian-bound": ["2 p_max", "2p", "1 − p", "p_max (", "min("],
    "qk-norm": ["√(1/d", "mean(q", "‖q‖ ‖k‖", "d ⟨q, k⟩"],
    "soft-cap": ["cap · tanh", "C tanh", "tanh(x/", "tanh(score", "scores / cap"],
}


@pytest.mark.parametrize("name", SOLUTIONS)
def test_no_message_holds_the_solution(name):
    exercise = exercises.judge(name)
    for text in (exercise.asks, *exercise.mistakes):
        for code in ("np.", "torch.", "einsum", "return x", " @ ", "lambda", *SOLUTIONS[name]):
            assert code not in text
