"""The judges of the chapter on the KV cache, against what readers write."""

import itertools

import numpy as np
import pytest
import torch

import attnlib
from attnlib import definitions, exercises
from attnlib.exercises import Mistake

NAMES = ["generation-pairs", "cached-step", "chunk-mask", "ring", "accepted"]


def refused(name, function) -> str:
    with pytest.raises(Mistake) as caught:
        exercises.check(name, function)
    return str(caught.value)


def test_the_chapter_has_its_exercises():
    assert set(NAMES) <= set(exercises.names())


# --- right functions, in NumPy and in torch -----------------------------------------------


def pairs_in_closed_form(n, p, cached):
    if cached:
        return (p + n - 1) * (p + n) // 2
    return ((p + n - 1) * (p + n) * (p + n + 1) - (p - 1) * p * (p + 1)) // 6


def step_in_torch(q, k_new, v_new, cache):
    keys, values = (torch.cat([old, x[None]]) for old, x in zip(cache, (k_new, v_new), strict=True))
    weights = torch.softmax(keys @ q / len(q) ** 0.5, 0)
    return weights @ values, (keys, values)


def step_in_numpy(q, k_new, v_new, cache):
    keys, values = np.vstack([cache[0], k_new]), np.vstack([cache[1], v_new])
    weights = np.exp(keys @ q / np.sqrt(len(q)))
    return weights / weights.sum() @ values, (keys, values)


def step_of_the_package(q, k_new, v_new, cache):
    keys, values = torch.vstack([cache[0], k_new]), torch.vstack([cache[1], v_new])
    given = (x[None, None].float() for x in (q[None], keys, values))
    return attnlib.dot_product_attention(*given)[0, 0, 0], keys, values


def ring_from_the_end(n_tokens, window):
    newest = {token % window: token for token in range(n_tokens)}
    return [newest.get(slot) for slot in range(window)]


def accepted_by_loop(drafted, wanted):
    n = 0
    while n < len(drafted) and drafted[n] == wanted[n]:
        n += 1
    return [*drafted[:n], wanted[n]]


def accepted_in_torch(drafted, wanted):
    same = torch.tensor(drafted) == torch.tensor(wanted[:-1])
    return wanted[: int(same.cumprod(0).sum()) + 1]


@pytest.mark.parametrize(
    "name,function",
    [
        ("generation-pairs", pairs_in_closed_form),
        ("cached-step", step_in_torch),
        ("cached-step", step_in_numpy),
        ("cached-step", step_of_the_package),
        ("cached-step", lambda *given: [step_in_numpy(*given)[0], *step_in_numpy(*given)[1]]),
        ("cached-step", lambda *given: (step_in_numpy(*given)[0], list(step_in_numpy(*given)[1]))),
        ("chunk-mask", lambda n, new: torch.ones(new, n + new, dtype=torch.bool).tril(n)),
        ("chunk-mask", lambda n, new: np.tri(new, n + new, n, dtype=bool)),
        ("chunk-mask", lambda n, new: attnlib.causal_mask(new, n + new)),
        ("ring", ring_from_the_end),
        ("ring", lambda n, window: tuple(definitions.ring_slots(n, window))),
        ("accepted", accepted_by_loop),
        ("accepted", accepted_in_torch),
    ],
)
def test_other_right_functions_are_accepted(name, function, capsys):
    exercises.check(name, function)
    assert capsys.readouterr().out.startswith("Right: ")


# --- wrong functions, as readers write them -----------------------------------------------


def pairs_with(first=0, beyond=0, cached_from=1, itself=1):
    """Pairs by loops over passes that may begin or end elsewhere."""

    def pairs(n, n_prompt, cached):
        total = 0
        for i, n_tokens in enumerate(range(n_prompt + first, n_prompt + n + beyond)):
            new = 1 if cached and i >= cached_from else n_tokens
            total += sum(t + itself for t in range(n_tokens - new, n_tokens))
        return total

    return pairs


def step_with(reads_itself=True, scale=lambda d: d**-0.5, returns=lambda old, new: new):
    def step(q, k_new, v_new, cache):
        new = torch.vstack([cache[0], k_new]), torch.vstack([cache[1], v_new])
        keys, values = new if reads_itself else cache
        out = torch.softmax(scale(len(q)) * keys @ q, 0) @ values
        return out, tuple(returns(cache, new))

    return step


def step_that_forgets_the_return(q, k_new, v_new, cache):
    return step_in_torch(q, k_new, v_new, cache)[0]


@pytest.mark.parametrize(
    "name,function,says",
    [
        ("generation-pairs", pairs_with(beyond=1), "one pass too many: the prompt's pass gives"),
        ("generation-pairs", pairs_with(beyond=-1), "each of the 3 new tokens needs one"),
        ("generation-pairs", pairs_with(cached_from=0), "it has 5, all of them new"),
        ("generation-pairs", pairs_with(itself=0), "a target reads itself too"),
        (
            "generation-pairs",
            lambda n, p, cached: pairs_with()(n, p, False),
            "the cache makes no difference",
        ),
        (
            "generation-pairs",
            lambda n, p, cached: pairs_with()(n, p, True),
            "without a cache all tokens are targets again",
        ),
        (
            "generation-pairs",
            lambda n, p, cached: p + n - 1 if cached else sum(range(p, p + n)),
            "those are tokens that are processed",
        ),
        (
            "generation-pairs",
            lambda n, p, cached: (
                pairs_in_closed_form(n, p, True) if cached else sum(s * s for s in range(p, p + n))
            ),
            "without a cache, pairs that may not be read are counted too",
        ),
        ("cached-step", step_with(reads_itself=False), "the new token does not read itself"),
        (
            "cached-step",
            lambda *given: step_with(reads_itself=not len(given[3][0]))(*given),
            "does not read itself, unless it is the first",
        ),
        (
            "cached-step",
            step_with(returns=lambda old, new: old),
            "the old one, with 2 rows: it never advances",
        ),
        ("cached-step", step_with(scale=lambda d: 1.0), "the scores are not scaled"),
        ("cached-step", step_with(scale=lambda d: 1 / d), "divided by d = 3, not by its root"),
        (
            "cached-step",
            step_with(returns=lambda old, new: [x[-1:] for x in new]),
            "only the new row is kept: the 2 before it",
        ),
        (
            "cached-step",
            step_with(returns=lambda old, new: [x.roll(1, 0) for x in new]),
            "the new row stands before the others",
        ),
        (
            "cached-step",
            step_with(returns=lambda old, new: new[::-1]),
            "keys and values have changed places",
        ),
        (
            "cached-step",
            step_with(returns=lambda old, new: (new[0], old[1])),
            "the keys advance, the values do not: both must have 3 rows",
        ),
        ("cached-step", step_that_forgets_the_return, "3 results are asked for, got 1"),
        (
            "chunk-mask",
            lambda n, new: np.ones((new, n + new), dtype=bool),
            "as if one token were new: within a chunk of 3 no token",
        ),
        (
            "chunk-mask",
            lambda n, new: np.tri(new, n + new, dtype=bool),
            "the first new token is token 5, not token 0",
        ),
        (
            "chunk-mask",
            lambda n, new: torch.ones(new, new, dtype=torch.bool).tril(),
            "the columns of the 5 cached tokens are missing",
        ),
        (
            "chunk-mask",
            lambda n, new: torch.ones(n + new, n + new, dtype=torch.bool).tril(),
            "a row for each of the 8 tokens: only the 3 new ones ask",
        ),
        ("chunk-mask", lambda n, new: np.tri(new, n + new, n - 1, dtype=bool), "read itself too"),
        ("chunk-mask", lambda n, new: np.tri(new, n + new, n + 1, dtype=bool), "one token too far"),
        ("chunk-mask", lambda n, new: np.tri(new, n + new, n), "True and False belong"),
        (
            "ring",
            lambda n, window: (list(range(n))[-window:] + [None] * window)[:window],
            "in a ring a token stays where it is",
        ),
        (
            "ring",
            lambda n, window: definitions.ring_slots(n, window + 1),
            "one slot more than the window",
        ),
        (
            "ring",
            lambda n, window: [x or 0 for x in definitions.ring_slots(n, window)],
            "0 stands where nothing has come yet",
        ),
        (
            "accepted",
            lambda drafted, wanted: accepted_by_loop(drafted, wanted)[:-1],
            "its pass gives one in any case",
        ),
        (
            "accepted",
            lambda drafted, wanted: [
                *(a for a, b in zip(drafted, wanted, strict=False) if a == b),
                wanted[-1],
            ],
            "tokens are accepted behind a wrong one",
        ),
        (
            "accepted",
            lambda drafted, wanted: accepted_by_loop(drafted, wanted)[: len(drafted)],
            "missing where the whole draft is right",
        ),
        ("accepted", lambda drafted, wanted: wanted, "all that the large model wanted is written"),
        (
            "accepted",
            lambda drafted, wanted: len(accepted_by_loop(drafted, wanted)) - 1,
            "how many are accepted: the tokens",
        ),
    ],
)
def test_what_readers_write_is_told_with_the_numbers_of_the_case(name, function, says):
    assert says in refused(name, function)


@pytest.mark.parametrize("which", [0, 1, 2])
def test_a_near_miss_within_the_pair_that_comes_back_is_refused(which):
    def near_miss(*given):
        output, (keys, values) = step_in_numpy(*given)
        output, keys, values = (
            1.001 * x if i == which else x for i, x in enumerate((output, keys, values))
        )
        return output, (keys, values)

    assert "result" in refused("cached-step", near_miss)


def test_a_step_that_writes_into_the_cache_is_found_out():
    def step(q, k_new, v_new, cache):
        result = step_in_numpy(q, k_new, v_new, cache)
        cache[0][:] = 0
        return result

    assert "changes its argument cache" in refused("cached-step", step)


def test_only_where_parts_are_wanted_is_a_tuple_within_a_tuple_taken_apart():
    # two results are wanted, and the first may be a tuple of numbers
    def merge(part_a, part_b):
        out, lse = exercises.judge("merge").definition(part_a, part_b)
        return tuple(out), lse

    exercises.check("merge", merge)
    told = refused("cached-step", lambda q, *rest: (q, (q, q, q)))
    assert "3 results are asked for, got 2" in told


SOLUTIONS = {
    "generation-pairs": ["n(n", "(n + 1)", "range(", "/ 2", "+ n"],
    "cached-step": ["vstack", "cat(", "keys @", "append("],
    "chunk-mask": ["tril", "tri(", "n_cached + t", "<= "],
    "ring": ["%", "mod", "remainder"],
    "accepted": ["[:n", "+ 1]", "while", "zip("],
}


@pytest.mark.parametrize("name", NAMES)
def test_no_message_holds_the_solution(name):
    exercise = exercises.judge(name)
    for text in (exercise.asks, *exercise.mistakes):
        for code in ("np.", "torch.", "return x", " @ ", "lambda", *SOLUTIONS[name]):
            assert code not in text


# --- the definitions of the judges --------------------------------------------------------


def test_steps_one_after_another_are_attention_with_a_cache():
    rng = np.random.default_rng(5)
    n, d, e = 4, 3, 2
    q, k, v = rng.normal(size=(n, d)), rng.normal(size=(n, d)), rng.normal(size=(n, e))
    step, cache, out = exercises.judge("cached-step").definition, (k[:0], v[:0]), []
    for t in range(n):
        output, *cache = step(q[t], k[t], v[t], cache)
        out.append(output)
    wanted = definitions.attention_with_cache(q, k, v, [1] * n)
    np.testing.assert_allclose(out, wanted, rtol=0, atol=1e-15)
    np.testing.assert_array_equal(cache[0], k)
    np.testing.assert_array_equal(cache[1], v)


def test_what_a_round_writes_is_the_beginning_of_what_the_large_model_writes_alone():
    accepted = exercises.judge("accepted").definition

    def next_of(tokens):
        return (3 * sum(tokens) + len(tokens)) % 3

    prompt, alone = [1], [1]
    for _ in range(4):
        alone.append(next_of(alone))
    lengths = set()
    for drafted in itertools.product(range(3), repeat=3):
        wanted = [next_of([*prompt, *drafted[:i]]) for i in range(4)]
        written = accepted(list(drafted), wanted)
        assert written == alone[1 : 1 + len(written)]
        # one more would need a choice of the large model that this round does not show
        n = len(written) - 1
        assert n == 3 or drafted[n] != alone[1 + n]
        lengths.add(len(written))
    assert lengths == {1, 2, 3, 4}


def test_the_cases_of_speculative_decoding_are_what_they_say():
    accepted = exercises.judge("accepted").definition
    n = {
        c.about: len(accepted(*c.arguments.values())) - 1 for c in exercises.judge("accepted").cases
    }
    assert n == {
        "a draft that goes wrong and is then right by chance": 2,
        "a draft that is right": 3,
        "a draft that is wrong at once": 0,
        "a draft that is wrong at its end": 2,
        "a draft one place ahead": 0,
        "no draft": 0,
    }
