"""The judges of the chapter on latent attention, against what readers write."""

import numpy as np
import pytest
import torch
from einops import repeat

from attnlib import cost, definitions, exercises
from attnlib.exercises import Mistake
from attnlib.latent import absorbed_queries, expanded_keys_and_values

NAMES = ["latent-scores", "latent-pair", "selectors"]


def refused(name, function) -> str:
    with pytest.raises(Mistake) as caught:
        exercises.check(name, function)
    return str(caught.value)


def test_the_chapter_has_its_exercises():
    assert set(NAMES) <= set(exercises.names())


# --- right functions, in NumPy and in torch -----------------------------------------------


def scores_expanded(q, latent, rotary_key, up_key):
    return np.hstack([latent @ up_key.T, rotary_key]) @ q / np.sqrt(len(q))


def scores_absorbed(q, latent, rotary_key, up_key):
    n, d = len(up_key), len(q)
    return (latent @ (up_key.T @ q[:n]) + rotary_key @ q[n:]) * d**-0.5


def scores_in_torch(q, latent, rotary_key, up_key):
    n = up_key.shape[0]
    keys = torch.einsum("sc,nc->sn", latent, up_key)
    return torch.cat([keys, rotary_key], dim=-1) @ q / (n + rotary_key.shape[1]) ** 0.5


def scores_in_float32(*given):
    return scores_in_torch(*(torch.as_tensor(x).float() for x in given))


def scores_scaled_before(q, latent, rotary_key, up_key):
    return scores_absorbed(q / len(q) ** 0.25, latent, rotary_key, up_key) * len(q) ** 0.25


def scores_of_the_package(q, latent, rotary_key, up_key):
    wide = absorbed_queries(q[None, None, None], up_key[None])[0, 0, 0]
    return torch.cat([latent, rotary_key], dim=-1) @ wide / len(q) ** 0.5


def scores_of_the_keys_of_the_package(q, latent, rotary_key, up_key):
    keys, _ = expanded_keys_and_values(latent[None], rotary_key[None], up_key[None], up_key[None])
    return keys[0, 0] @ q / len(q) ** 0.5


def pair_in_closed_form(h, n, r, e, c):
    return 2 * h * (n + r + e), 2 * h * (2 * c + r), c + r, h * (n + r + e)


def pair_of_the_cost_model(h, n, r, e, c):
    given = {cost.SYMBOLS[letter]: x for letter, x in zip("hnrec", (h, n, r, e, c), strict=True)}
    forms = cost.EXPANDED, cost.ABSORBED
    flops = [int(form.flops_per_pair.subs(given)) for form in forms]
    return flops + [int(form.cache_elements.subs(given)) for form in reversed(forms)]


def pair_of_arrays(h, n, r, e, c):
    keys, values, kept = np.zeros((h, n + r)), np.zeros((h, e)), np.zeros(c + r)
    return (
        2 * (keys.size + values.size),
        2 * h * (kept.size + c),
        kept.size,
        keys.size + values.size,
    )


def selectors_of_rows(h, g, d, e):
    rows = np.eye(g * (d + e))
    keys = np.repeat(rows[: g * d].reshape(g, d, -1), h // g, axis=0)
    return keys, np.repeat(rows[g * d :].reshape(g, e, -1), h // g, axis=0)


def selectors_in_torch(h, g, d, e):
    keys, values = torch.eye(g * (d + e)).split([g * d, g * e])
    return tuple(x.unflatten(0, (g, -1)).repeat_interleave(h // g, dim=0) for x in (keys, values))


def selectors_by_einops(h, g, d, e):
    keys, values = torch.eye(g * (d + e), dtype=bool).split([g * d, g * e])
    return [repeat(x, "(g d) c -> (g p) d c", g=g, p=h // g) for x in (keys, values)]


def selectors_by_kronecker_products(h, g, d, e):
    """Who reads whom, times the identity, beside zeros."""
    reads = np.kron(np.eye(g), np.ones((h // g, 1)))
    keys = np.kron(reads, np.eye(d)).reshape(h, d, g * d)
    values = np.kron(reads, np.eye(e)).reshape(h, e, g * e)
    nothing_of_values, nothing_of_keys = np.zeros((h, d, g * e)), np.zeros((h, e, g * d))
    return np.concatenate([keys, nothing_of_values], 2), np.concatenate(
        [nothing_of_keys, values], 2
    )


def selectors_with_loops(h, g, d, e, key_start=None, value_start=None, reads=None):
    """As readers write it; the starts of the blocks and the heads that are read may be changed."""
    key_start = key_start or (lambda j: j * d)
    value_start = value_start or (lambda j: g * d + j * e)
    up_keys, up_values = np.zeros((h, d, g * (d + e))), np.zeros((h, e, g * (d + e)))
    for i in range(h):
        j = reads(i) if reads else i // (h // g)
        for k in range(d):
            up_keys[i, k, key_start(j) + k] = 1
        for k in range(e):
            up_values[i, k, value_start(j) + k] = 1
    return up_keys, up_values


@pytest.mark.parametrize(
    "name,function",
    [
        ("latent-scores", scores_expanded),
        ("latent-scores", scores_absorbed),
        ("latent-scores", scores_in_torch),
        ("latent-scores", scores_in_float32),
        ("latent-scores", scores_scaled_before),
        ("latent-scores", scores_of_the_package),
        ("latent-scores", scores_of_the_keys_of_the_package),
        ("latent-pair", pair_in_closed_form),
        ("latent-pair", pair_of_the_cost_model),
        ("latent-pair", pair_of_arrays),
        ("latent-pair", lambda *given: torch.tensor(pair_in_closed_form(*given)).unbind()),
        ("selectors", selectors_of_rows),
        ("selectors", selectors_in_torch),
        ("selectors", selectors_by_einops),
        ("selectors", selectors_by_kronecker_products),
        ("selectors", selectors_with_loops),
    ],
)
def test_other_right_functions_are_accepted(name, function, capsys):
    exercises.check(name, function)
    assert capsys.readouterr().out.startswith("Right: ")


# --- wrong functions, as readers write them -----------------------------------------------


def scores_over(width):
    def scores(q, latent, rotary_key, up_key):
        n, c = up_key.shape
        products = torch.cat([latent @ up_key.T, rotary_key], dim=-1) @ q
        return products / width(n, rotary_key.shape[1], c) ** 0.5

    return scores


def scores_with_the_wrong_brackets(q, latent, rotary_key, up_key):
    n = len(up_key)
    return latent @ (up_key.T @ q[:n]) + rotary_key @ q[n:] / np.sqrt(len(q))


def scores_of_the_other_order(q, latent, rotary_key, up_key):
    return np.hstack([rotary_key, latent @ up_key.T]) @ q / np.sqrt(len(q))


def scores_without_rotation(q, latent, rotary_key, up_key):
    return torch.einsum("n,nc,sc->s", q[: len(up_key)], up_key, latent) / len(q) ** 0.5


def scores_with_a_reshape(q, latent, rotary_key, up_key):
    keys = latent @ up_key.reshape(up_key.shape[1], up_key.shape[0])
    return np.hstack([keys, rotary_key]) @ q / np.sqrt(len(q))


def scores_without_a_transpose(q, latent, rotary_key, up_key):
    return torch.cat([latent @ up_key, rotary_key], dim=-1) @ q / len(q) ** 0.5


def pair_with(**wrong):
    def pair(h, n, r, e, c):
        results = dict(
            zip(
                ("expanded", "absorbed", "kept", "all"),
                pair_in_closed_form(h, n, r, e, c),
                strict=True,
            )
        )
        return tuple((results | {k: f(h, n, r, e, c) for k, f in wrong.items()}).values())

    return pair


def selectors_with(key_start=None, value_start=None, reads=None):
    def selectors(h, g, d, e):
        def of(rule):
            return rule and (lambda j: rule(j, h, g, d, e))

        return selectors_with_loops(h, g, d, e, of(key_start), of(value_start), of(reads))

    return selectors


@pytest.mark.parametrize(
    "name,function,says",
    [
        ("latent-scores", scores_over(lambda n, r, c: n), "that of the n = 5 coordinates without"),
        ("latent-scores", scores_over(lambda n, r, c: r), "that of the r = 3 rotary coordinates"),
        ("latent-scores", scores_over(lambda n, r, c: c + r), "what is kept of a token, 12 numb"),
        ("latent-scores", scores_over(lambda n, r, c: c), "that of the latents, of width c = 9"),
        ("latent-scores", scores_over(lambda n, r, c: 1), "the scale is missing"),
        ("latent-scores", scores_over(lambda n, r, c: (n + r) ** 2), "the scale lacks its root"),
        ("latent-scores", scores_with_the_wrong_brackets, "only the rotary part is scaled"),
        ("latent-scores", scores_of_the_other_order, "taken from the front of the query"),
        ("latent-scores", scores_without_rotation, "what the n = 5 coordinates without rotation"),
        ("latent-scores", scores_with_a_reshape, "reshaped where it should be transposed"),
        ("latent-scores", scores_without_a_transpose, "row i of the matrix, and not column i"),
        (
            "latent-scores",
            lambda *given: torch.softmax(scores_in_torch(*given), 0),
            "those are weights",
        ),
        (
            "latent-scores",
            lambda *given: scores_absorbed(*given)[None],
            "the result must have shape (4,), got (1, 4)",
        ),
        ("latent-pair", pair_with(kept=lambda h, n, r, e, c: c), "the rotary key, of width r = 3,"),
        (
            "latent-pair",
            pair_with(kept=lambda h, n, r, e, c: c + h * r),
            "kept once for each of the h = 6 heads",
        ),
        (
            "latent-pair",
            pair_with(absorbed=lambda h, n, r, e, c: 4 * h * (c + r)),
            "run over the rotary key as well",
        ),
        (
            "latent-pair",
            lambda *given: [x / 2 if k < 2 else x for k, x in enumerate(pair_of_arrays(*given))],
            "those are multiply-adds",
        ),
        (
            "latent-pair",
            pair_with(absorbed=lambda h, n, r, e, c: 2 * (2 * c + r)),
            "counted for a single head: the key is shared, and each of the h = 6",
        ),
        ("latent-pair", pair_with(all=lambda h, n, r, e, c: h * (n + e)), "whole keys have it"),
        (
            "latent-pair",
            pair_with(all=lambda h, n, r, e, c: h * (n + e) + r),
            "keeps the rotary part once",
        ),
        (
            "latent-pair",
            pair_with(expanded=lambda h, n, r, e, c: 4 * h * (n + r)),
            "as wide as keys in the expanded form: here e = 4",
        ),
        (
            "latent-pair",
            lambda h, n, r, e, c: pair_in_closed_form(h, n, 0, e, c),
            "r = 3, is missing everywhere",
        ),
        (
            "latent-pair",
            lambda h, n, r, e, c: (
                *pair_in_closed_form(h, n, r, e, c)[:2],
                r + c + e,
                h * (n + r + e),
            ),
            "a value of width e = 4 is kept",
        ),
        ("latent-pair", lambda *given: pair_of_arrays(*given)[:3], "4 results are asked for"),
        ("selectors", selectors_with(reads=lambda i, h, g, d, e: i % g), "the heads take turns: q"),
        (
            "selectors",
            lambda h, g, d, e: tuple(
                np.tile(x[:: h // g], (h // g, 1, 1)) for x in selectors_of_rows(h, g, d, e)
            ),
            "the heads take turns: q",
        ),
        (
            "selectors",
            selectors_with(reads=lambda i, h, g, d, e: i // g),
            "as there are key/value heads, g = 3: there are p = 2",
        ),
        (
            "selectors",
            selectors_with(
                key_start=lambda j, h, g, d, e: j * (d + e),
                value_start=lambda j, h, g, d, e: j * (d + e) + d,
            ),
            "each value stands right behind its key",
        ),
        (
            "selectors",
            selectors_with(value_start=lambda j, h, g, d, e: j * e),
            "the values are read at the start of the latent",
        ),
        (
            "selectors",
            selectors_with(value_start=lambda j, h, g, d, e: d + j * e),
            "behind a single key of width d = 4: all g = 3 keys",
        ),
        (
            "selectors",
            selectors_with(value_start=lambda j, h, g, d, e: g * d + j * d),
            "from one value to the next are e = 5 places, and not d = 3",
        ),
        (
            "selectors",
            lambda h, g, d, e: tuple(x / (h // g) for x in selectors_in_torch(h, g, d, e)),
            "the ones are divided by p = 2",
        ),
        (
            "selectors",
            lambda h, g, d, e: tuple(x.mT for x in selectors_in_torch(h, g, d, e)),
            "the matrices are transposed",
        ),
        (
            "selectors",
            lambda h, g, d, e: torch.eye(g * (d + e)).split([g * d, g * e]),
            "the result must have shape (6, 4, 18), got (12, 18)",
        ),
        ("selectors", lambda *given: selectors_of_rows(*given)[0], "2 results are asked for"),
    ],
)
def test_what_readers_write_is_told_with_the_numbers_of_the_case(name, function, says):
    assert says in refused(name, function)


@pytest.mark.parametrize("which", range(4))
def test_a_near_miss_in_one_of_the_four_counts_is_refused(which):
    def near_miss(*given):
        return tuple(x + (k == which) for k, x in enumerate(pair_in_closed_form(*given)))

    assert "result must be" in refused("latent-pair", near_miss)


@pytest.mark.parametrize("which", range(2))
def test_a_single_one_too_many_is_refused(which):
    def near_miss(*given):
        matrices = definitions.latent_selectors(*given)
        matrices[which][-1, -1, 0] += 1
        return matrices

    assert "must be" in refused("selectors", near_miss)


def test_a_near_miss_of_a_thousandth_is_refused():
    near_miss = refused("latent-scores", lambda *given: 1.001 * scores_expanded(*given))
    assert "result[0] must be" in near_miss


SOLUTIONS = {
    "latent-scores": ["√", "n + r", "n+r", "hstack", "concat", "[:n]", "[n:]", "q[", "** -0.5"],
    "latent-pair": ["2h", "2 h", "n + r", "c + r", "2c", "2 c", "h(", "h ("],
    "selectors": [
        "⌊",
        "//",
        "i/p",
        "repeat",
        "floor",
        "eye(",
        "g d",
        "j d",
        "jd",
        "e j",
        "round d",
    ],
}


@pytest.mark.parametrize("name", NAMES)
def test_no_message_holds_the_solution(name):
    exercise = exercises.judge(name)
    for text in (exercise.asks, *exercise.mistakes):
        for code in ("np.", "torch.", "einsum", "return x", " @ ", "lambda", *SOLUTIONS[name]):
            assert code not in text


# --- the cases ----------------------------------------------------------------------------


def test_latents_of_the_cases_are_wider_and_narrower_than_keys():
    shapes = [case.arguments["up_key"].shape for case in exercises.judge("latent-scores").cases]
    assert {np.sign(c - n) for n, c in shapes} == {-1, 0, 1}
    sizes = [case.arguments for case in exercises.judge("latent-pair").cases]
    assert {np.sign(x["c"] - x["n"] - x["r"]) for x in sizes} >= {-1, 1}
    assert all(len(set(x.values())) == 5 for x in sizes)


def test_no_scale_of_the_first_case_is_another():
    widths = exercises.judge("latent-scores").cases[0].arguments
    (n, c), r = widths["up_key"].shape, widths["rotary_key"].shape[1]
    assert len({1, n, r, c, n + r, c + r, n + c}) == 7


def test_the_cases_of_selectors_know_neighbours_from_turns_and_keys_from_values():
    sizes = [tuple(case.arguments.values()) for case in exercises.judge("selectors").cases]
    assert any(1 < g < h and g * g != h for h, g, _, _ in sizes)
    assert any(g == 1 for _, g, _, _ in sizes)
    assert any(g == h for h, g, _, _ in sizes)
    assert {np.sign(d - e) for _, _, d, e in sizes} == {-1, 1}
