"""The judges: the right function is accepted, every known mistake is called by its name."""

import re
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
import torch

import attnlib
from attnlib import definitions, embeddings, exercises
from attnlib.exercises import Mistake
from attnlib.exercises.exact import ExactExercise
from attnlib.exercises.judge import Case, Exercise

ALL = [exercises.judge(name) for name in exercises.names()]
MISTAKES = [(exercise, says) for exercise in ALL for says in exercise.mistakes]


def test_the_chapter_on_attention_has_its_exercises():
    wanted = {"softmax", "kernel-average", "attention", "softmax-jacobian", "gauge", "merge"}
    assert wanted | {"entropy", "linear-kernel", "shared-heads"} <= set(exercises.names())


def test_the_chapter_on_embeddings_has_its_exercises():
    wanted = {"embedding-gradient", "cooccurrence", "positive-pmi", "nearest"}
    assert wanted <= set(exercises.names())


def test_the_chapter_on_tokenization_has_its_exercises():
    wanted = {"count-pairs", "merge-pair", "encode-by-rank", "word-piece"}
    assert wanted <= set(exercises.names())


def test_the_chapter_on_positions_has_its_exercises():
    wanted = {"sinusoidal", "rotate-half", "rotate-interleaved", "alibi", "padded-positions"}
    assert wanted <= set(exercises.names())


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
    numbers = re.sub(r"\\{[^}]+\\}", ".+", re.escape(says))
    assert re.fullmatch(f"{exercise.name}: {numbers}", str(caught.value))
    assert "{" not in str(caught.value)


@pytest.mark.parametrize("exercise", ALL, ids=lambda e: e.name)
def test_sizes_are_small_and_those_of_one_array_differ_where_they_can(exercise):
    # equal sizes are wanted only where the case says so
    for case in exercise.cases:
        for name, x in case.arguments.items():
            if isinstance(x, np.ndarray):
                assert x.size <= 128
                square = name in ("a", "cov_q", "cov_k") or "as many" in case.about
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


def sinusoids_in_numpy(positions, width):
    encoding = np.zeros((len(positions), width))
    angles = np.outer(positions, np.exp(-np.log(10_000) * np.arange(0, width, 2) / width))
    encoding[:, 0::2], encoding[:, 1::2] = np.sin(angles), np.cos(angles)
    return encoding


def rotate_half_in_numpy(x, positions):
    half = x.shape[1] // 2
    angles = np.tile(positions[:, None] / 10_000 ** (np.arange(half) / half), 2)
    return x * np.cos(angles) + np.hstack([-x[:, half:], x[:, :half]]) * np.sin(angles)


def rotate_neighbours_in_torch(x, positions):
    z = torch.view_as_complex(x.unflatten(-1, (-1, 2)))
    angles = positions[:, None] * 10_000.0 ** (-2 * torch.arange(z.shape[1]) / x.shape[1])
    return torch.view_as_real(z * torch.polar(torch.ones_like(angles), angles)).flatten(-2)


def attention_in_float32(q, k, v, may_attend=None):
    return attention_of_the_package(q.float(), k.float(), v.float(), may_attend)


def jacobian_with_loops(p):
    return [[p[i] * ((i == j) - p[j]) for j in range(len(p))] for i in range(len(p))]


def embedding_gradient_in_torch(ids, gradients, v):
    of_table = torch.zeros(v, gradients.shape[1], dtype=torch.float64)
    return of_table.index_add(0, ids, gradients)


def cooccurrence_of_the_package(ids, v, window):
    words = [str(int(i)) for i in ids]
    return embeddings.cooccurrence(words, [str(i) for i in range(v)], window=window)


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
        ("embedding-gradient", embedding_gradient_in_torch),
        ("embedding-gradient", lambda ids, gradients, v: np.eye(v)[ids].T @ gradients),
        ("cooccurrence", cooccurrence_of_the_package),
        ("positive-pmi", lambda counts: embeddings.positive_pmi(np.asarray(counts))),
        ("nearest", lambda *a: embeddings.nearest(np.asarray(a[0]), *a[1:])),
        ("linear-kernel", lambda q, k, v: q @ (k.T @ v) / (q @ k.sum(0))[:, None]),
        ("sinusoidal", attnlib.sinusoidal_encoding),
        ("sinusoidal", sinusoids_in_numpy),
        ("rotate-half", lambda x, p: attnlib.rotate(x.float(), p, pairing="half")),
        ("rotate-half", rotate_half_in_numpy),
        ("rotate-interleaved", lambda x, p: attnlib.rotate(x, p, pairing="interleaved")),
        ("rotate-interleaved", rotate_neighbours_in_torch),
        ("alibi", lambda t, s, slope: attnlib.alibi_bias(t, s, torch.tensor([slope]))[0]),
        ("padded-positions", attnlib.padded_positions),
        ("padded-positions", lambda is_token: (is_token.cumsum(-1) - 1) * is_token),
    ],
)
def test_other_right_functions_are_accepted(name, function, capsys):
    exercises.check(name, function)
    assert capsys.readouterr().out.startswith("Right: ")


def embedding_gradient_with_plus_equals(ids, gradients, v):
    of_table = np.zeros((v, gradients.shape[1]))
    of_table[ids] += gradients
    return of_table


def cooccurrence_with_python_indices(ids, v, window):
    counts = np.zeros((v, v))
    for a in range(len(ids)):
        for b in range(max(0, a - window), min(len(ids), a + window + 1)):
            if a != b:
                counts[ids[a], ids[b]] += 1
    return counts


def pmi_of_probabilities(counts):
    p = counts / counts.sum()
    return np.log(p / (p.sum(1, keepdims=True) * p.sum(0))).clip(0)


def pmi_that_knows_empty_rows_only(counts):
    rows = counts.sum(1, keepdims=True)
    ratio = counts / np.where(rows == 0, 1, rows) * counts.sum() / counts.sum(0)
    return np.log(np.maximum(ratio, 1))


def nearest_in_torch(vectors, index, n):
    similar = torch.nn.functional.cosine_similarity(vectors, vectors[index], dim=-1)
    return similar.topk(n).indices, similar.topk(n).values


@pytest.mark.parametrize(
    "name,function,says",
    [
        ("embedding-gradient", embedding_gradient_with_plus_equals, "so does +=, which reads"),
        ("embedding-gradient", lambda ids, gradients, v: gradients.cumsum(0), "must have shape (5"),
        ("cooccurrence", cooccurrence_with_python_indices, "Python's name for the last row"),
        ("positive-pmi", pmi_of_probabilities, "right, but for a word without company"),
        ("positive-pmi", pmi_that_knows_empty_rows_only, "a word that stands alone"),
        ("nearest", nearest_in_torch, "the word itself is among its neighbours"),
        ("nearest", lambda vectors, index, n: vectors[:n], "2 results are asked for, got 1"),
    ],
)
def test_what_a_reader_writes_about_embeddings_is_told_apart(name, function, says):
    assert says in refused(name, function)


def alibi_that_never_starts_before_the_sources(n_targets, n_sources, slope):
    here = np.arange(n_targets)[:, None] + max(0, n_sources - n_targets)
    return -slope * np.abs(here - np.arange(n_sources))


def nearest_without_the_first(vectors, index, n):
    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    similar = unit @ unit[index]
    found = np.argsort(-similar, kind="stable")[1 : n + 1]
    return found, similar[found]


@pytest.mark.parametrize(
    "name,function,says",
    [
        ("alibi", alibi_that_never_starts_before_the_sources, "more targets than sources"),
        ("nearest", nearest_without_the_first, "Leave the word out by its index"),
    ],
)
def test_what_is_right_in_all_but_one_kind_of_case_is_refused(name, function, says):
    assert says in refused(name, function)


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


@pytest.mark.parametrize(
    "exercise", [e for e in ALL if not isinstance(e, ExactExercise)], ids=lambda e: e.name
)
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


# --- exercises whose results are lists, dictionaries or texts -----------------------------


@pytest.mark.parametrize(
    "name,function",
    [
        ("count-pairs", lambda ids: Counter(definitions.count_pairs(ids))),
        ("merge-pair", lambda ids, pair, new: np.array(definitions.merge_pair(ids, pair, new))),
        ("merge-pair", lambda ids, pair, new: tuple(definitions.merge_pair(ids, pair, new))),
        ("merge-pair", lambda ids, pair, new: torch.tensor(definitions.merge_pair(ids, pair, new))),
        ("word-piece", lambda word, vocabulary: attnlib.word_piece(word, vocabulary)),
    ],
)
def test_results_that_are_lists_may_come_in_other_forms(name, function, capsys):
    exercises.check(name, function)
    assert capsys.readouterr().out.startswith("Right: ")


def test_replaying_all_merges_is_a_right_encoding(capsys):
    def replay(ids, merges):
        for rank, pair in enumerate(merges):
            ids = definitions.merge_pair(ids, pair, 256 + rank)
        return ids

    exercises.check("encode-by-rank", replay)
    assert capsys.readouterr().out.startswith("Right: ")


def test_both_lists_are_shown_where_no_known_mistake_fits():
    message = refused("merge-pair", lambda ids, pair, new_id: [0])
    assert "ids=[1, 2, 3, 2, 1, 2, 5], pair=(1, 2), new_id=99: the result must be [99, 3" in message
    assert message.endswith("got [0].")


def test_what_goes_wrong_in_a_list_is_told():
    def in_place(ids, pair, new_id):
        ids[:] = definitions.merge_pair(ids, pair, new_id)
        return ids

    assert "changes its argument ids" in refused("merge-pair", in_place)
    assert "is there a return at its end?" in refused("merge-pair", lambda i, p, n: None)
    assert "merge-pair, nothing: your function returns None" in refused(
        "merge-pair", lambda ids, *rest: definitions.merge_pair(ids, *rest) if ids else None
    )
    message = refused("count-pairs", lambda ids: {}[ids[0]])
    assert "your function raised KeyError: 1. Asked for is count_pairs(ids)" in message


def test_a_list_that_is_wrong_first_as_a_known_mistake_is_told_so():
    def overlapping_and_worse(ids):
        return Counter(pairwise(ids)) if len(ids) > 1 else {(0, 0): 1}

    message = refused("count-pairs", overlapping_and_worse)
    assert "counted twice: three equal tokens hold the pair once" in message


EXACT = [exercise for exercise in ALL if isinstance(exercise, ExactExercise)]


@pytest.mark.parametrize(
    "exercise,case",
    [(exercise, case) for exercise in EXACT for case in exercise.cases],
    ids=lambda x: getattr(x, "name", getattr(x, "about", None)),
)
def test_every_case_of_an_exact_exercise_counts(exercise, case):
    def wrong_in_one(*arguments):
        result = exercise.definition(*arguments)
        if list(arguments) != list(case.arguments.values()):
            return result
        return {**result, (0, 0): 7} if isinstance(result, dict) else [*result, 7]

    assert f"{exercise.name}, {case.about}, " in refused(exercise.name, wrong_in_one)


@pytest.mark.parametrize("number", [float, bool, str])
def test_ids_and_counts_are_integers(number):
    def merged(ids, pair, new_id):
        return [number(x) for x in definitions.merge_pair(ids, pair, new_id)]

    def counted(ids):
        return {pair: number(n) for pair, n in definitions.count_pairs(ids).items()}

    assert "the result must be [99, 3, 2, 99, 5], got [" in refused("merge-pair", merged)
    assert "the result must be {(1, 2): 2, " in refused("count-pairs", counted)


def test_digits_in_a_row_are_no_ids():
    # in "1121123" the text "112" stands more often than the ids 1, 12
    def count_in_a_text(ids):
        text = "".join(map(str, ids))
        return {pair: text.count("".join(map(str, pair))) for pair in pairwise(ids)}

    assert "ids of several digits" in refused("count-pairs", count_in_a_text)
    assert "raised ValueError: bytes must be in range" in refused(
        "count-pairs", lambda ids: {p: bytes(ids).count(bytes(p)) for p in pairwise(ids)}
    )


def test_odd_results_are_told_as_what_they_are():
    merge_pair, count_pairs = definitions.merge_pair, definitions.count_pairs

    class AlwaysEqual:
        def __eq__(self, other):
            return True

    assert "returns a generator; make a list" in refused(
        "merge-pair", lambda *arguments: (x for x in merge_pair(*arguments))
    )
    assert "returns a map; make a list" in refused(
        "merge-pair", lambda *arguments: map(int, merge_pair(*arguments))
    )
    assert "got <" in refused("merge-pair", lambda *arguments: AlwaysEqual())
    assert "'x': 1}." in refused("count-pairs", lambda ids: {**count_pairs(ids), "x": 1})
    assert "two tensors are two keys even where they are equal" in refused(
        "count-pairs", lambda ids: {tuple(map(torch.tensor, p)): 1 for p in pairwise(ids)} or {}
    )

    def puts_arrays_in(ids, pair, new_id):
        ids[:] = [np.array([1, 2])] * len(ids)
        return []

    assert "changes its argument ids" in refused("merge-pair", puts_arrays_in)


@pytest.mark.parametrize("kind", [Exercise, ExactExercise])
def test_a_mistake_that_fits_no_further_than_the_first_wrong_case_is_told_with_it(kind):
    exercise = kind(
        name="double",
        asks="double(n) → 2n",
        definition=lambda n: 2 * n,
        cases=tuple(Case(about=f"n = {n}", arguments={"n": n}) for n in (0, 1, 5)),
        mistakes={"that is n itself.": lambda n: n},
    )
    for function, says in (
        (lambda n: n, "double: that is n itself."),
        (lambda n: min(n, 1), "double, n = 1: that is n itself."),
    ):
        with pytest.raises(Mistake) as caught:
            exercise.check(function)
        assert str(caught.value) == says


def test_a_slice_that_is_compared_with_a_tuple_is_found_out():
    def merge_nothing(ids, pair, new_id):
        out, i = [], 0
        while i < len(ids):
            found = ids[i : i + 2] == pair
            out.append(new_id if found else ids[i])
            i += 2 if found else 1
        return out

    assert "compare tuple(ids[i : i + 2])" in refused("merge-pair", merge_nothing)
