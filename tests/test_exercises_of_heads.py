"""The judges of chapters/multi-head-attention.md: the right pass, mistakes have names."""

import numpy as np
import pytest
import torch
from einops import rearrange

import attnlib
from attnlib import AttentionSizes, definitions, exercises
from attnlib.exercises import Mistake


def refused(name, function) -> str:
    with pytest.raises(Mistake) as caught:
        exercises.check(name, function)
    return str(caught.value)


def test_the_chapter_has_its_exercises():
    wanted = {"split-heads", "multi-head", "least-width", "head-parameters"}
    assert wanted <= set(exercises.names())


# --- right functions, in NumPy and in torch -----------------------------------------------


def multi_head_by_concatenation(x, w_q, w_k, w_v, w_o):
    heads = []
    for q_i, k_i, v_i in zip(w_q, w_k, w_v, strict=True):
        scores = (x @ q_i) @ (x @ k_i).T / np.sqrt(q_i.shape[1])
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        heads.append(weights / weights.sum(-1, keepdims=True) @ (x @ v_i))
    return np.concatenate(heads, axis=1) @ w_o.reshape(-1, w_o.shape[-1])


def multi_head_of_the_package(x, w_q, w_k, w_v, w_o):
    q, k, v = (torch.einsum("tm,hmd->htd", x, w)[None] for w in (w_q, w_k, w_v))
    out = attnlib.dot_product_attention(q, k, v)[0]
    return torch.einsum("hte,hem->tm", out, w_o)


def multi_head_in_float32(x, w_q, w_k, w_v, w_o):
    x, w_q, w_k, w_v, w_o = (torch.as_tensor(y).float() for y in (x, w_q, w_k, w_v, w_o))
    return multi_head_of_the_package(x, w_q, w_k, w_v, w_o)


def least_width_in_numpy(p):
    logs = np.log(p)
    return np.linalg.matrix_rank(logs - logs.mean(axis=1, keepdims=True))


def least_width_in_torch(p):
    n = p.shape[1]
    centre = torch.eye(n, dtype=p.dtype) - torch.ones(n, n, dtype=p.dtype) / n
    return torch.linalg.matrix_rank(torch.log(p) @ centre)


def least_width_against_the_last_source(p):
    logs = np.log(p)
    return np.linalg.matrix_rank(logs[:, :-1] - logs[:, -1:])


def parameters_of_the_sizes(m, h, g, d, e):
    sizes = AttentionSizes(n_query_heads=h, n_kv_heads=g, head_dim=d, value_dim=e)
    return sizes.n_parameters(m)


@pytest.mark.parametrize(
    "name,function",
    [
        ("split-heads", lambda x, h: x.reshape(len(x), h, -1).transpose(1, 0, 2)),
        ("split-heads", lambda x, h: np.array(np.split(x, h, axis=1))),
        ("split-heads", lambda x, h: torch.stack(x.chunk(h, dim=-1))),
        ("split-heads", lambda x, h: rearrange(x, "t (h d) -> h t d", h=h)),
        ("multi-head", multi_head_by_concatenation),
        ("multi-head", multi_head_of_the_package),
        ("multi-head", multi_head_in_float32),
        ("least-width", least_width_in_numpy),
        ("least-width", least_width_in_torch),
        ("least-width", least_width_against_the_last_source),
        ("head-parameters", parameters_of_the_sizes),
        ("head-parameters", lambda m, h, g, d, e: m * (h + g) * (d + e)),
        ("head-parameters", lambda m, h, g, d, e: torch.tensor(m * (h + g) * (d + e))),
    ],
)
def test_other_right_functions_are_accepted(name, function, capsys):
    exercises.check(name, function)
    assert capsys.readouterr().out.startswith("Right: ")


# --- wrong functions, as readers write them -----------------------------------------------


def multi_head_with(scale=lambda d, m: d**-0.5, axis=-1, together="hte,hem->tm", order=1):
    def attend(x, w_q, w_k, w_v, w_o):
        q, k, v = (torch.einsum("tm,hmd->htd", x, w) for w in (w_q, w_k, w_v))
        scores = torch.einsum("htd,hsd->hts", q, k) * scale(q.shape[-1], x.shape[1])
        w_o = w_o.flip(0) if order == -1 else w_o
        return torch.einsum(together, torch.softmax(scores, axis) @ v, w_o)

    return attend


def multi_head_without_output(x, w_q, w_k, w_v, w_o):
    q, k, v = (torch.einsum("tm,hmd->htd", x, w) for w in (w_q, w_k, w_v))
    out = torch.softmax(q @ k.mT / q.shape[-1] ** 0.5, -1) @ v
    return out.transpose(0, 1).flatten(1)


def multi_head_with_a_view(x, w_q, w_k, w_v, w_o):
    q, k, v = (torch.einsum("tm,hmd->htd", x, w) for w in (w_q, w_k, w_v))
    out = torch.softmax(q @ k.mT / q.shape[-1] ** 0.5, -1) @ v
    return out.reshape(len(x), -1) @ w_o.flatten(0, 1)


@pytest.mark.parametrize(
    "name,function,says",
    [
        (
            "split-heads",
            lambda x, h: x.reshape(h, len(x), -1),
            "head 0 then begins with all 6 columns of token 0, in place of its own 3",
        ),
        (
            "split-heads",
            lambda x, h: x.reshape(len(x), -1, h).transpose(2, 0, 1),
            "head i takes the columns i, i + 2, i + 2·2, …; its 3 columns must be neighbours",
        ),
        ("split-heads", lambda x, h: x.unflatten(1, (h, -1)), "the axes stand as (t, h, d)"),
        (
            "split-heads",
            lambda x, h: x.chunk(h, -1),
            "one array is asked for, got a tuple of 2.",
        ),
        (
            "split-heads",
            lambda x, h: x.reshape(len(x), -1, h).transpose(1, 0, 2),
            "these are 3 heads of width 2",
        ),
        ("multi-head", multi_head_with(scale=lambda d, m: m**-0.5), "uses m = 7 instead of d = 3"),
        ("multi-head", multi_head_with(scale=lambda d, m: 1.0), "the scores are not scaled"),
        ("multi-head", multi_head_with(axis=0), "the softmax is over the heads"),
        ("multi-head", multi_head_with(axis=1), "the softmax is over the targets"),
        ("multi-head", multi_head_with(order=-1), "the output matrices come in the wrong order"),
        ("multi-head", multi_head_with(together="hte,hem->htm"), "write is not added up"),
        ("multi-head", multi_head_without_output, "the result must have width m = 7"),
        ("multi-head", multi_head_with_a_view, "reshaped straight to (t, h·e), which mixes tokens"),
        (
            "multi-head",
            lambda *given: multi_head_by_concatenation(*given) / len(given[1]),
            "that is the mean over the 2 heads",
        ),
        ("least-width", lambda p: np.linalg.matrix_rank(np.log(p)), "that is the rank of log P"),
        ("least-width", np.linalg.matrix_rank, "that is the rank of P: softmax is not linear"),
        (
            "least-width",
            lambda p: np.linalg.matrix_rank(np.log(p) - np.log(p).mean(0)),
            "the means of the columns are taken off",
        ),
        ("least-width", lambda p: least_width_in_numpy(p) + 1, "that is one too many"),
        ("least-width", lambda p: p.shape[1] - 1, "here less may do"),
        (
            "least-width",
            lambda p: np.linalg.matrix_rank(np.log(p)) - 1,
            "one less than the rank of log P",
        ),
        (
            "least-width",
            lambda p: np.linalg.matrix_rank(
                (logs := np.log(p)) - logs.mean(0) - logs.mean(1)[:, None] + logs.mean()
            ),
            "the means of rows and of columns are taken off",
        ),
        ("head-parameters", lambda m, h, g, d, e: 4 * m**2, "that is 4 m²"),
        (
            "head-parameters",
            lambda m, h, g, d, e: 2 * m * h * (d + e),
            "g = 2 key/value heads are counted as if there were h = 6",
        ),
        (
            "head-parameters",
            lambda m, h, g, d, e: 2 * m * d * (h + g),
            "with d = 3, the width of queries and keys, in place of e = 5",
        ),
        ("head-parameters", lambda m, h, g, d, e: m * (h * d + g * (d + e)), "output matrix is mi"),
    ],
)
def test_what_readers_write_is_told_with_the_numbers_of_the_case(name, function, says):
    assert says in refused(name, function)


def test_the_least_widths_of_the_cases_are_those_they_were_made_with():
    exercise = exercises.judge("least-width")
    widths = [exercise.definition(case.arguments["p"]) for case in exercise.cases]
    assert widths == [2, 1, 2, 3, 2, 2]


def test_numbers_of_parameters_are_shown_with_the_sizes():
    message = refused("head-parameters", lambda m, h, g, d, e: 1)
    assert "(m = 12, h = 3, g = 3, d = 4, e = 4): result must be 576, got 1." in message


SOLUTIONS = {
    "split-heads": ["reshape(", "rearrange(", "t (h d)", "unflatten", "transpose("],
    "multi-head": ["Σ_i", "concat(", "W_O[i]", "reshape("],
    "least-width": ["rank(log", "log P − ", "I − 1", "log P less", "rows of log P"],
    "head-parameters": ["mhd", "m·h·d", "m (h", "(h + g)", "h·d + g·d"],
}


@pytest.mark.parametrize("name", SOLUTIONS)
def test_no_message_holds_the_solution(name):
    exercise = exercises.judge(name)
    for text in (exercise.asks, *exercise.mistakes):
        for code in ("np.", "torch.", "einsum", "return x", " @ ", "lambda", *SOLUTIONS[name]):
            assert code not in text


def test_the_definition_of_the_parameters_agrees_with_matrices_that_are_made():
    m, h, g, d, e = 7, 6, 2, 3, 5
    matrices = (
        np.zeros((m, h * d)),
        np.zeros((m, g * d)),
        np.zeros((m, g * e)),
        np.zeros((h * e, m)),
    )
    wanted = sum(matrix.size for matrix in matrices)
    assert exercises.judge("head-parameters").definition(m, h, g, d, e) == wanted
    assert definitions.split_heads(matrices[0], h).shape == (h, m, d)
