"""The claims of chapters/conventions.md and chapters/attention.md about masks."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from attnlib import causal_mask, definitions, padding_mask, prefix_mask, window_mask

counts = st.integers(0, 9)
windows = st.integers(1, 12)


@given(n_targets=counts, n_sources=counts, window=st.none() | windows)
def test_causal_mask_is_its_definition(n_targets, n_sources, window):
    mask = causal_mask(n_targets, n_sources, window=window)
    wanted = definitions.causal_mask(n_targets, n_sources, window)
    assert mask.dtype == torch.bool
    np.testing.assert_array_equal(mask.numpy(), wanted)


def test_the_last_target_reads_every_source():
    assert causal_mask(3, 8)[-1].all()
    assert causal_mask(3, 8).sum(-1).tolist() == [6, 7, 8]


def test_without_a_number_of_sources_there_are_as_many_as_targets():
    assert torch.equal(causal_mask(5), torch.ones(5, 5).tril().bool())
    assert torch.equal(causal_mask(5), causal_mask(5, 5))
    assert torch.equal(window_mask(5, window=2), window_mask(5, 5, window=2))
    assert torch.equal(prefix_mask(5, n_prefix=2), prefix_mask(5, 5, n_prefix=2))


def test_targets_before_the_first_source_have_nothing_to_read():
    assert causal_mask(5, 3).sum(-1).tolist() == [0, 0, 1, 2, 3]


def test_a_window_of_w_means_w_sources_the_target_itself_included():
    mask = causal_mask(9, window=4)
    assert mask.diagonal().all()
    assert mask.sum(-1).tolist() == [1, 2, 3, 4, 4, 4, 4, 4, 4]
    assert torch.equal(causal_mask(6, window=1), torch.eye(6, dtype=torch.bool))


@given(n_targets=counts, n_sources=counts, window=windows)
def test_the_causal_window_is_causal_and_window(n_targets, n_sources, window):
    both = causal_mask(n_targets, n_sources) & window_mask(n_targets, n_sources, window=window)
    assert torch.equal(causal_mask(n_targets, n_sources, window=window), both)


def test_a_window_on_both_sides_reaches_w_minus_one_to_each():
    assert window_mask(7, window=3)[3].tolist() == [False, True, True, True, True, True, False]
    assert torch.equal(window_mask(7, window=3), window_mask(7, window=3).T)


@given(n_targets=counts, n_sources=counts)
def test_a_window_of_any_size_may_be_given(n_targets, n_sources):
    huge = causal_mask(n_targets, n_sources, window=10**30)
    assert torch.equal(huge, causal_mask(n_targets, n_sources))
    assert torch.equal(huge, causal_mask(n_targets, n_sources, window=max(n_sources, 1)))
    assert window_mask(n_targets, n_sources, window=10**30).all()


def test_a_window_follows_the_last_targets():
    whole = window_mask(9, window=3)
    assert torch.equal(window_mask(4, 9, window=3), whole[-4:])


@given(n=counts, n_prefix=counts)
def test_a_prefix_is_read_by_all_and_the_rest_causally(n, n_prefix):
    n_prefix = min(n_prefix, n)
    mask = prefix_mask(n, n_prefix=n_prefix)
    assert mask[:, :n_prefix].all()
    assert torch.equal(mask[:, n_prefix:], causal_mask(n)[:, n_prefix:])


def test_the_limits_of_a_prefix_are_causal_and_everything():
    assert torch.equal(prefix_mask(5, 7, n_prefix=0), causal_mask(5, 7))
    assert prefix_mask(5, 7, n_prefix=7).all()


def test_later_targets_of_a_cached_step_read_as_in_the_whole_sequence():
    whole = causal_mask(9, window=5)
    for n_targets in range(10):
        assert torch.equal(causal_mask(n_targets, 9, window=5), whole[9 - n_targets :])


def test_padding_stands_on_the_source_axis():
    is_token = torch.tensor([[False, True, True], [True, True, True]])
    mask = padding_mask(is_token)
    assert tuple(mask.shape) == (2, 1, 1, 3)
    assert torch.equal(mask.expand(2, 1, 5, 3)[0, 0, 4], is_token[0])


def test_zero_is_a_padding_id_like_any_other():
    tokens = torch.tensor([[4, 0, 0], [4, 5, 0]])
    assert padding_mask(tokens != 0).sum().item() == 3


def test_masks_are_sets_of_pairs():
    causal, window = causal_mask(6, 8), window_mask(6, 8, window=3)
    assert torch.equal(~(causal & window), ~causal | ~window)
    assert torch.equal(causal & ~window, causal & ~(causal & window))
    padded = causal & padding_mask(torch.arange(8)[None] >= torch.tensor([[0], [2]]))
    assert tuple(padded.shape) == (2, 1, 6, 8)
    assert torch.equal(padded[0, 0], causal)
    assert not padded[1, 0, :, :2].any()
