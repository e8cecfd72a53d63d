"""The claims of chapters/counting-cost.md about sums: how many tokens, and how many pairs."""

import itertools

import sympy as sp
from hypothesis import given
from hypothesis import strategies as st

from attnlib import cost
from attnlib.cost.letters import N, P, T, W

WINDOWS = st.sampled_from([None, 1, 2, 5, 40])


def reads(t: int, window: int | None) -> int:
    return t if window is None else min(t, window)


@given(n=st.integers(0, 25), new=st.integers(0, 25), window=WINDOWS)
def test_pairs_are_what_a_loop_over_targets_counts(n, new, window):
    assert cost.n_pairs(n, window=window) == sum(reads(t, window) for t in range(1, n + 1))
    new = min(n, new)
    targets = range(n - new + 1, n + 1)
    assert cost.n_pairs_of_pass(new, n, window=window) == sum(reads(t, window) for t in targets)
    read = {s for t in targets for s in range(t - reads(t, window), t)}
    if new > 0:
        assert cost.n_keys_of_pass(new, n, window=window) == len(read)


@given(new=st.integers(1, 12), prompt=st.integers(1, 12), window=WINDOWS)
def test_generation_is_what_a_loop_over_its_passes_counts(new, prompt, window):
    lengths = range(prompt, prompt + new)
    one_prefill = [prompt] + [1] * (new - 1)
    assert cost.n_tokens_cached(new, prompt) == sum(one_prefill)
    assert cost.n_tokens_recomputed(new, prompt) == sum(lengths)
    cached = [reads(t, window) for t in range(1, prompt + new)]
    assert cost.n_pairs_cached(new, prompt, window=window) == sum(cached)
    recomputed = [reads(t, window) for length in lengths for t in range(1, length + 1)]
    assert cost.n_pairs_recomputed(new, prompt, window=window) == sum(recomputed)
    dense = [n_new * n for n_new, n in zip(one_prefill, lengths, strict=True)]
    assert cost.n_dense_pairs_cached(new, prompt) == sum(dense)
    assert cost.n_dense_pairs_recomputed(new, prompt) == sum(n * n for n in lengths)


def test_closed_forms_are_sympys_sums():
    s, t = sp.symbols("s t", integer=True, positive=True)
    cases = [
        (cost.n_pairs(N), sp.summation(t, (t, 1, N))),
        (cost.n_pairs_of_pass(T, N), sp.summation(t, (t, N - T + 1, N))),
        (cost.n_tokens_recomputed(T, P), sp.summation(s, (s, P, P + T - 1))),
        (
            cost.n_pairs_recomputed(T, P),
            sp.summation(sp.summation(t, (t, 1, s)), (s, P, P + T - 1)),
        ),
        (
            cost.n_dense_pairs_cached(T, P),
            P**2 + sp.summation(s, (s, P + 1, P + T - 1)),
        ),
        (cost.n_dense_pairs_recomputed(T, P), sp.summation(s**2, (s, P, P + T - 1))),
    ]
    for closed, summed in cases:
        assert sp.expand(closed - summed) == 0


def test_from_an_empty_prompt_the_cache_turns_a_cube_into_a_square():
    # in total: of the core (N + 2)/3 times as many pairs, of the linear parts (N + 1)/2 times
    pairs = cost.n_pairs_recomputed(N) / cost.n_pairs_cached(N)
    tokens = cost.n_tokens_recomputed(N) / cost.n_tokens_cached(N)
    assert sp.simplify(pairs - (N + 2) / 3) == sp.simplify(tokens - (N + 1) / 2) == 0


def test_in_a_window_the_total_grows_by_w_for_each_token():
    later = [cost.n_pairs(n, window=W).subs(W, 7) for n in range(10, 14)]
    assert [b - a for a, b in itertools.pairwise(later)] == [7, 7, 7]
