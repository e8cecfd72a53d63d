"""The judges: the right function is accepted, every known mistake is called by its name."""

import re

import numpy as np
import pytest
import torch

import attnlib
from attnlib import definitions, exercises
from attnlib.exercises import Mistake

ALL = [exercises.judge(name) for name in exercises.names()]
MISTAKES = [(exercise, says) for exercise in ALL for says in exercise.mistakes]


def test_the_chapter_on_attention_has_its_exercises():
    wanted = {"softmax", "kernel-average", "attention", "softmax-jacobian", "gauge", "merge"}
    assert wanted | {"entropy", "linear-kernel", "shared-heads"} == set(exercises.names())


@pytest.mark.parametrize("exercise", ALL, ids=lambda e: e.name)
def test_the_definition_is_accepted_with_one_line(exercise, capsys):
    exercises.check(exercise.name, exercise.definition)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith(f"Right: {exercise.name} agrees with its definition in all")


@pytest.mark.parametrize("exercise,says", MISTAKES, ids=lambda x: getattr(x, "name", x)[:60])
def test_every_known_mistake_is_called_by_its_name(exercise, says):
    with pytest.raises(Mistake) as caught:
        exercise.check(exercise.mistakes[says])
    assert str(caught.value) == f"{exercise.name}: {says}"


@pytest.mark.parametrize("exercise", ALL, ids=lambda e: e.name)
def test_sizes_are_small_and_those_of_one_array_differ_where_they_can(exercise):
    # equal sizes are wanted only where the case says so
    for case in exercise.cases:
        for name, x in case.arguments.items():
            if isinstance(x, np.ndarray):
                assert x.size <= 128
                square = name == "a" or "as many" in case.about
                assert square or len(set(x.shape)) == x.ndim, (case.about, name)


def softmax_in_torch(scores):
    return torch.softmax(scores, -1)


def attention_in_numpy(q, k, v, may_attend=None):
    scores = q @ k.T / np.sqrt(q.shape[-1])
    if may_attend is not None:
        scores = np.where(may_attend, scores, -np.inf)
    largest = np.maximum(scores.max(-1, keepdims=True), -1e300)
    weights = np.exp(scores - largest)
    total = weights.sum(-1, keepdims=True)
    return weights / np.where(total == 0, 1, total) @ v


def attention_of_the_package(q, k, v, may_attend=None):
    out = attnlib.dot_product_attention(
        q[None, None], k[None, None], v[None, None], may_attend=may_attend
    )
    return out[0, 0]


def merge_in_torch(part_a, part_b):
    (out_a, lse_a), (out_b, lse_b) = part_a, part_b
    weights = attnlib.softmax(torch.stack([lse_a, lse_b]))
    return weights[0] * out_a + weights[1] * out_b, torch.logaddexp(lse_a, lse_b)


def merge_of_the_package(part_a, part_b):
    return attnlib.merge_attention([part_a, part_b])


def attention_in_float32(q, k, v, may_attend=None):
    return attention_of_the_package(q.float(), k.float(), v.float(), may_attend)


def jacobian_with_loops(p):
    return [[p[i] * ((i == j) - p[j]) for j in range(len(p))] for i in range(len(p))]


@pytest.mark.parametrize(
    "name,function",
    [
        ("softmax", softmax_in_torch),
        ("softmax", lambda scores: torch.softmax(scores.float(), -1)),
        ("softmax", lambda scores: attnlib.softmax(scores)),
        ("attention", attention_in_numpy),
        ("attention", attention_of_the_package),
        ("attention", attention_in_float32),
        ("merge", merge_in_torch),
        ("merge", merge_of_the_package),
        ("softmax-jacobian", jacobian_with_loops),
        ("gauge", lambda w_q, w_k, a: (w_q @ a, torch.linalg.solve(a, w_k.T).T)),
        ("gauge", lambda w_q, w_k, a: (w_q @ a, np.linalg.solve(a, w_k.T).T)),
        ("gauge", lambda w_q, w_k, a: [w_q @ a, np.linalg.solve(a, w_k.T).T]),
        ("merge", lambda a, b: list(definitions.merge(a, b))),
        ("entropy", lambda p: torch.special.entr(p).sum()),
        ("linear-kernel", lambda q, k, v: q @ (k.T @ v) / (q @ k.sum(0))[:, None]),
    ],
)
def test_other_right_functions_are_accepted(name, function, capsys):
    exercises.check(name, function)
    assert capsys.readouterr().out.startswith("Right: ")


def refused(name, function) -> str:
    with pytest.raises(Mistake) as caught:
        exercises.check(name, function)
    return str(caught.value)


def test_two_mistakes_at_once_are_told_by_the_first():
    def unscaled_and_nan(q, k, v, may_attend=None):
        scores = q @ k.T
        if may_attend is not None:
            scores = np.where(may_attend, scores, -np.inf)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        return weights / weights.sum(-1, keepdims=True) @ v

    assert "multiply them by 1/√d" in refused("attention", unscaled_and_nan)


def test_an_unknown_mistake_shows_where_and_what():
    message = refused("entropy", lambda p: 7.0)
    assert re.fullmatch(
        r"entropy, five weights \(p \(5,\)\): result must be \d\.\d+, got 7\.", message
    )
    message = refused("softmax", lambda scores: scores)
    assert re.search(
        r"a few small scores \(scores \(3, 5\)\): result\[0, 0\] must be \S+, got \S+\.", message
    )


@pytest.mark.parametrize("exercise", ALL, ids=lambda e: e.name)
def test_a_near_miss_in_any_result_is_refused(exercise):
    case = exercise.cases[0]
    results = exercise.definition(*case.arguments.values())
    for which in range(len(results) if isinstance(results, tuple) else 1):

        def near_miss(*arguments, which=which):
            results = exercise.definition(*arguments)
            if not isinstance(results, tuple):
                return 1.001 * results
            return tuple(1.001 * r if i == which else r for i, r in enumerate(results))

        refused(exercise.name, near_miss)


def merge_relative_to_part_a(part_a, part_b):
    (out_a, lse_a), (out_b, lse_b) = part_a, part_b
    if lse_a == -np.inf and lse_b == -np.inf:
        return out_a, lse_a
    w = np.exp(lse_b - lse_a)
    return (out_a + w * out_b) / (1 + w), lse_a + np.log(1 + w)


def merge_relative_to_part_b(part_a, part_b):
    return merge_relative_to_part_a(part_b, part_a)


def merge_with_guards_relative_to_part_a(part_a, part_b):
    if part_a[1] == -np.inf:
        return part_b
    return merge_relative_to_part_a(part_a, part_b)


@pytest.mark.parametrize(
    "function,part",
    [
        (merge_relative_to_part_a, "first"),
        (merge_with_guards_relative_to_part_a, "first"),
        (merge_relative_to_part_b, "second"),
    ],
)
def test_masses_relative_to_one_part_are_refused(function, part):
    assert f"right while the {part} part has the larger mass" in refused("merge", function)


@pytest.mark.parametrize("guarded", [False, True])
@pytest.mark.parametrize(
    "largest,says",
    [
        (lambda s, may: s.max(-1, keepdims=True), "among the sources that may be read: a far"),
        (lambda s, may: s[may].max(), "of each row, not of the whole matrix"),
        (lambda s, may: s.max(), "of each row, not of the whole matrix"),
    ],
)
def test_a_maximum_over_too_much_is_called_by_its_name(largest, says, guarded):
    def attention(q, k, v, may_attend=None):
        s = q @ k.T / np.sqrt(q.shape[-1])
        may = np.ones(s.shape, bool) if may_attend is None else may_attend
        e = np.exp(s - largest(s, may)) * may
        z = e.sum(-1, keepdims=True)
        return e / (np.where(z == 0, 1, z) if guarded else z) @ v

    assert says in refused("attention", attention)


def test_the_error_raised_with_tensors_is_shown_to_whoever_uses_their_methods():
    def softmax(scores):
        e = scores.exp()
        return e / e.sum(-1)

    message = refused("softmax", softmax)
    assert "your function raised RuntimeError: The size of tensor a (5) must match" in message
    assert "has no attribute" not in message
    assert "keepdims=True" in message


def test_two_different_errors_are_both_shown():
    def softmax(scores):
        e = scores.sum(-1, keepdim=True)
        return scores / e[:, 0]

    message = refused("softmax", softmax)
    assert re.search(r"TypeError: .*'keepdim'.* \(with NumPy arrays\) and RuntimeError: ", message)
    assert "must match the size of tensor b (3) at non-singleton dimension 1 (with to" in message
    with pytest.raises(Mistake) as caught:
        exercises.check("softmax", softmax)
    assert isinstance(caught.value.__cause__, TypeError)


def test_the_error_is_that_of_the_library_which_the_function_names():
    def of_numpy(scores):
        return np.exp(scores).sum(-1, keepdims=True).mistyped

    def of_torch(scores):
        return torch.exp(scores).mistyped

    def of_both(scores):
        return scores.exp() / np.sqrt(4.0) / undefined

    assert "raised NameError" in refused("softmax", of_both)
    assert "'numpy.ndarray' object has no attribute 'mistyped'" in refused("softmax", of_numpy)
    assert "'Tensor' object has no attribute 'mistyped'" in refused("softmax", of_torch)


@pytest.mark.parametrize(
    "function",
    [
        lambda q, k, v: np.einsum("htd,hsd->hts", q, k),
        lambda q, k, v: np.matmul(q, k.transpose(0, 2, 1)),
        lambda q, k, v: torch.einsum("htd,hsd->hts", q, k),
        lambda q, k, v: torch.matmul(q, k.mT),
        lambda q, k, v: q @ k.mT,
    ],
)
def test_shapes_of_products_that_do_not_fit_come_without_the_hint(function):
    message = refused("shared-heads", function)
    assert "your function raised " in message
    assert "keepdims" not in message


def test_a_wrong_shape_is_told_with_both_shapes():
    message = refused("softmax", lambda scores: definitions.softmax(scores[0]))
    assert "the result must have shape (3, 5), got (5,)" in message
    assert "2 results are asked for, got 1" in refused("gauge", lambda w_q, w_k, a: w_q @ a)
    assert "2 results are asked for, got 3" in refused("gauge", lambda w_q, w_k, a: [a, a, a])


def test_an_error_in_the_readers_code_is_shown_with_the_case():
    def broken(p):
        return p + undefined

    with pytest.raises(Mistake, match=r"five weights.*your function raised NameError") as caught:
        exercises.check("entropy", broken)
    assert isinstance(caught.value.__cause__, NameError)
    assert "entropy(p) → the entropy in nats" in refused("entropy", lambda: 0.0)


def test_shapes_that_do_not_fit_come_with_a_hint():
    def softmax(scores):
        e = np.exp(scores)
        return e / e.sum(axis=1)

    with pytest.raises(Mistake, match=r"raised ValueError: .*broadcast.*keepdims=True"):
        exercises.check("softmax", softmax)


def test_the_shapes_of_a_pair_are_told():
    with pytest.raises(Mistake, match=r"two parts \(part_a \(\(3,\), \(\)\), part_b"):
        exercises.check("merge", lambda a, b: (0 * a[0] + 7.0, a[1]))


def test_a_function_that_changes_its_argument_is_found_out():
    def in_place(scores):
        scores -= scores.max(-1, keepdims=True)
        return np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)

    def in_place_in_a_tuple(part_a, part_b):
        result = definitions.merge(part_a, part_b)
        part_a[0][:] = 0
        return result

    assert "changes its argument scores" in refused("softmax", in_place)
    assert "changes its argument part_a" in refused("merge", in_place_in_a_tuple)


def test_what_is_not_a_result_is_told():
    assert "is there a return at its end?" in refused("softmax", lambda scores: None)
    assert "got dict" in refused("entropy", lambda p: {})


@pytest.mark.parametrize(
    "function,got",
    [
        (lambda p: str(definitions.entropy(np.asarray(p))), "texts"),
        (lambda p: np.array(str(definitions.entropy(np.asarray(p))), dtype=object), "texts"),
        (lambda p: definitions.entropy(np.asarray(p)) + 0j, "complex numbers"),
        (lambda p: torch.special.entr(p).sum() + 1j, "complex numbers"),
        (lambda p: np.array(definitions.entropy(np.asarray(p)) + 0j), "complex numbers"),
    ],
)
def test_results_that_are_no_real_numbers_are_refused(function, got):
    message = refused("entropy", function)
    assert "must return real numbers" in message
    assert f"got {got}." in message


def test_unknown_names_are_refused_with_a_list_of_those_that_exist():
    for function in (exercises.judge, lambda name: exercises.check(name, len)):
        with pytest.raises(ValueError, match="no exercise 'sofmax'; those that exist: softmax, ke"):
            function("sofmax")


def test_a_mistake_is_an_assertion_error_so_that_a_cell_fails():
    assert issubclass(Mistake, AssertionError)
