"""The judges of the chapter on encoder and decoder, against what readers write."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F

import attnlib
from attnlib import definitions, exercises
from attnlib.exercises import Mistake


def refused(name, function) -> str:
    with pytest.raises(Mistake) as caught:
        exercises.check(name, function)
    return str(caught.value)


def test_the_chapter_has_its_exercises():
    wanted = {"layer-norm", "layer-norm-jacobian", "gated-width", "shift-right", "dobrushin"}
    assert wanted | {"cross-attention"} <= set(exercises.names())


# --- right functions, in NumPy and in torch -----------------------------------------------


def layer_norm_in_numpy(x, gain, shift, epsilon):
    centred = x - x.mean(axis=1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + epsilon) * gain + shift


def jacobian_by_matrices(x, epsilon):
    m = len(x)
    centre = np.eye(m) - np.ones((m, m)) / m
    root = np.sqrt(np.mean((centre @ x) ** 2) + epsilon)
    z = centre @ x / root
    return (centre - np.outer(z, z) / m) / root


def jacobian_by_autograd(x, epsilon):
    return torch.autograd.functional.jacobian(lambda y: F.layer_norm(y, y.shape, eps=epsilon), x)


def shift_by_slices(tokens, begin, end):
    everything = [begin, *tokens, end]
    return everything[:-1], everything[1:]


def shift_in_torch(tokens, begin, end):
    everything = torch.tensor([begin, *tokens, end])
    return everything[:-1], everything[1:]


def cross_attention_of_the_package(x, read, w_q, w_k, w_v, w_o):
    q, k, v = (
        torch.einsum("tm,hmd->htd", y, w)[None] for y, w in ((x, w_q), (read, w_k), (read, w_v))
    )
    return torch.einsum("hte,hem->tm", attnlib.dot_product_attention(q, k, v)[0], w_o)


def cross_attention_by_concatenation(x, read, w_q, w_k, w_v, w_o):
    heads = []
    for q_i, k_i, v_i in zip(w_q, w_k, w_v, strict=True):
        scores = (x @ q_i) @ (read @ k_i).T / np.sqrt(q_i.shape[1])
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        heads.append(weights / weights.sum(-1, keepdims=True) @ (read @ v_i))
    return np.concatenate(heads, axis=1) @ w_o.reshape(-1, w_o.shape[-1])


def dobrushin_by_what_is_shared(p):
    return 1 - torch.minimum(p[:, None], p[None]).sum(-1).min()


@pytest.mark.parametrize(
    "name,function",
    [
        ("layer-norm", layer_norm_in_numpy),
        ("layer-norm", lambda x, g, b, e: F.layer_norm(x, (x.shape[1],), g, b, eps=e)),
        ("layer-norm-jacobian", jacobian_by_matrices),
        ("layer-norm-jacobian", jacobian_by_autograd),
        ("gated-width", lambda f: int(2 * f / 3)),
        ("gated-width", lambda f: f - (f + 2) // 3),
        ("shift-right", shift_by_slices),
        ("shift-right", shift_in_torch),
        ("cross-attention", cross_attention_of_the_package),
        ("cross-attention", cross_attention_by_concatenation),
        ("dobrushin", dobrushin_by_what_is_shared),
        ("dobrushin", lambda p: torch.cdist(p, p, p=1).max() / 2),
    ],
)
def test_other_right_functions_are_accepted(name, function, capsys):
    exercises.check(name, function)
    assert capsys.readouterr().out.startswith("Right: ")


# --- wrong functions, as readers write them -----------------------------------------------


def layer_norm_with(std, epsilon_inside=True):
    def norm(x, gain, shift, epsilon):
        deviation = std(x)
        below = torch.sqrt(deviation**2 + epsilon) if epsilon_inside else deviation + epsilon
        return (x - x.mean(1, keepdim=True)) / below * gain + shift

    return norm


def cross_attention_with(queries="x", keys="read", values="read", axis=-1, scale=True):
    def attend(x, read, w_q, w_k, w_v, w_o):
        rows = {"x": x, "read": read}
        q, k, v = rows[queries] @ w_q, rows[keys] @ w_k, rows[values] @ w_v
        scores = q @ k.mT / (q.shape[-1] ** 0.5 if scale else 1)
        return (torch.softmax(scores, axis) @ v @ w_o).sum(0)

    return attend


def cross_attention_under(mask):
    def attend(x, read, w_q, w_k, w_v, w_o):
        scores = (x @ w_q) @ (read @ w_k).mT / w_q.shape[-1] ** 0.5
        may = mask(len(x), len(read))
        weights = attnlib.softmax(scores, may.expand(scores.shape))
        return (weights @ (read @ w_v) @ w_o).sum(0)

    return attend


@pytest.mark.parametrize(
    "name,function,says",
    [
        (
            "layer-norm",
            layer_norm_with(lambda x: x.std(1, keepdim=True)),
            "the variance divides by m − 1 = 3; here it divides by m = 4",
        ),
        (
            "layer-norm",
            layer_norm_with(lambda x: x.std(1, keepdim=True, correction=0), epsilon_inside=False),
            "ε is added to the standard deviation",
        ),
        (
            "layer-norm",
            lambda x, g, b, e: F.layer_norm(x, (x.shape[1],), g, b, eps=0.0),
            "ε is missing",
        ),
        (
            "layer-norm",
            lambda x, g, b, e: F.layer_norm(x, x.shape, eps=e) * g + b,
            "one mean and one variance serve all rows",
        ),
        (
            "layer-norm",
            lambda x, g, b, e: F.rms_norm(x, (x.shape[1],), g, eps=e) + b,
            "that is RMS norm",
        ),
        (
            "layer-norm",
            lambda x, g, b, e: (x - x.mean(0)) / np.sqrt(x.var(0) + e) * g + b,
            "the means are taken over the tokens",
        ),
        (
            "layer-norm-jacobian",
            lambda x, e: np.eye(len(x)) / np.sqrt(x.var() + e),
            "mean and standard deviation are taken as constants",
        ),
        (
            "layer-norm-jacobian",
            lambda x, e: (np.eye(len(x)) - 1 / len(x)) / np.sqrt(x.var() + e),
            "the standard deviation is taken as a constant",
        ),
        ("layer-norm-jacobian", lambda x, e: jacobian_by_matrices(x, 0.0), "ε is missing"),
        ("gated-width", lambda f: round(2 * f / 3), "the result is rounded to the nearest"),
        ("gated-width", lambda f: f // 2, "three matrices, not four"),
        ("gated-width", lambda f: 8 * f // 3, "taken for the width of the residual stream"),
        (
            "shift-right",
            lambda tokens, begin, end: ([begin, *tokens], [begin, *tokens]),
            "the decoder would learn to copy the token that it has just read",
        ),
        (
            "shift-right",
            lambda tokens, begin, end: ([begin, *tokens, end], [*tokens, end]),
            "the end is read, though nothing follows it",
        ),
        (
            "shift-right",
            lambda tokens, begin, end: shift_by_slices(tokens, begin, end)[::-1],
            "the lists have changed places",
        ),
        (
            "cross-attention",
            cross_attention_with("read", "x", "x"),
            "here the encoder asks and reads the decoder. The result must have t = 3 rows",
        ),
        ("cross-attention", cross_attention_with(keys="x", values="x"), "the decoder reads itself"),
        ("cross-attention", cross_attention_with(queries="read"), "the encoder reads itself"),
        (
            "cross-attention",
            cross_attention_with(values="x"),
            "keys come from read, but values from x",
        ),
        ("cross-attention", cross_attention_with(scale=False), "the scores are not scaled"),
        ("cross-attention", cross_attention_with(axis=1), "the softmax is over the targets"),
        (
            "cross-attention",
            cross_attention_under(attnlib.causal_mask),
            "its diagonal ending in the last row and column: every target may read all s = 5",
        ),
        (
            "cross-attention",
            cross_attention_under(lambda t, s: torch.ones(t, s, dtype=torch.bool).tril()),
            "its diagonal beginning in the first row and column: every target may read all s = 5",
        ),
        ("dobrushin", lambda p: torch.cdist(p, p, p=1).max(), "the half is missing"),
        ("dobrushin", lambda p: torch.cdist(p.T, p.T, p=1).max() / 2, "the columns are compared"),
        ("dobrushin", lambda p: torch.cdist(p, p).max() / 2, "the distance is Euclidean"),
    ],
)
def test_what_readers_write_is_told_with_the_numbers_of_the_case(name, function, says):
    assert says in refused(name, function)


SOLUTIONS = {
    "layer-norm": ["keepdim", "var(", "√("],
    "layer-norm-jacobian": ["I − ", "zz", "1/m", "z z"],
    "gated-width": ["2f/3", "2 f / 3", "2·f", "two thirds"],
    "shift-right": ["[:-1]", "[1:]", "[begin", "+ ["],
    "cross-attention": ["Σ_i", "read W", "concat(", "reshape("],
    "dobrushin": ["½", "/ 2", "max_", "Σ"],
}


@pytest.mark.parametrize("name", SOLUTIONS)
def test_no_message_holds_the_solution(name):
    exercise = exercises.judge(name)
    for text in (exercise.asks, *exercise.mistakes):
        for code in ("np.", "torch.s", "einsum", "return x", " @ ", "lambda", *SOLUTIONS[name]):
            assert code not in text


def test_the_width_of_a_gated_network_is_the_largest_that_does_not_cost_more():
    for case in exercises.judge("gated-width").cases:
        f = case.arguments["f"]
        gated = exercises.judge("gated-width").definition(f)
        # each matrix has m times as many entries as it has columns or rows of the inner width
        assert 3 * gated <= 2 * f < 3 * (gated + 1)


def test_the_rows_that_the_cases_hold_show_what_is_special_about_them():
    cases = {case.about: case.arguments["p"] for case in exercises.judge("dobrushin").cases}
    coefficients = {about: definitions.dobrushin(p) for about, p in cases.items()}
    assert coefficients["rows that share no source"] == 1.0
    assert coefficients["equal rows"] == coefficients["a single row"] == 0.0
    assert coefficients["rows that differ little"] < coefficients["rows that differ much"] < 1
