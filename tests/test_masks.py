"""The claims of chapters/masking.md and chapters/conventions.md about masks."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attnlib import (
    block_mask,
    causal_mask,
    compose_masks,
    definitions,
    document_mask,
    dot_product_attention,
    padding_mask,
    prefix_mask,
    window_mask,
)


def normal(*shape: int, seed: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


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


documents = st.lists(st.lists(st.integers(-2, 3), min_size=5, max_size=5), min_size=0, max_size=3)
blocks = st.integers(1, 12)


@given(rows=documents)
def test_the_mask_of_documents_is_its_definition(rows):
    document = torch.tensor(rows, dtype=torch.int64).reshape(len(rows), 5)
    mask = document_mask(document)
    assert mask.dtype == torch.bool
    assert tuple(mask.shape) == (len(rows), 1, 5, 5)
    for b, row in enumerate(rows):
        np.testing.assert_array_equal(mask[b, 0].numpy(), definitions.document_mask(row))


def test_tokens_of_one_document_read_each_other_also_where_it_returns():
    mask = document_mask(torch.tensor([[0, 0, 7, 0, 7]]))[0, 0]
    assert mask.int().tolist() == [
        [1, 1, 0, 1, 0],
        [1, 1, 0, 1, 0],
        [0, 0, 1, 0, 1],
        [1, 1, 0, 1, 0],
        [0, 0, 1, 0, 1],
    ]


def test_any_integers_name_documents():
    for dtype in (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64):
        mask = document_mask(torch.tensor([[0, 5, 0]], dtype=dtype))
        assert mask.int()[0, 0].tolist() == [[1, 0, 1], [0, 1, 0], [1, 0, 1]]
    # beyond 2⁵³ a float would hold them for the same
    large = torch.tensor([[2**53, 2**53 + 1]])
    assert torch.equal(document_mask(large)[0, 0], torch.eye(2, dtype=torch.bool))


def test_packed_documents_attend_as_each_of_them_alone():
    q, k = normal(1, 3, 7, 4, seed=0), normal(1, 3, 7, 4, seed=1)
    v = normal(1, 3, 7, 2, seed=2)
    document = torch.tensor([[4, 4, 4, 9, 9, 4, 9]])
    packed = dot_product_attention(q, k, v, may_attend=document_mask(document) & causal_mask(7))
    for number in (4, 9):
        (own,) = torch.nonzero(document[0] == number, as_tuple=True)
        alone = dot_product_attention(
            q[:, :, own], k[:, :, own], v[:, :, own], may_attend=causal_mask(len(own))
        )
        # sums of at most four products of size one, in another order
        torch.testing.assert_close(packed[:, :, own], alone, rtol=0, atol=1e-14)


@given(n_targets=counts, n_sources=counts, block=blocks)
def test_the_mask_of_blocks_is_its_definition(n_targets, n_sources, block):
    mask = block_mask(n_targets, n_sources, block=block)
    assert mask.dtype == torch.bool
    wanted = definitions.block_mask(n_targets, n_sources, block)
    np.testing.assert_array_equal(mask.numpy(), wanted)


def test_blocks_are_squares_on_the_diagonal_and_the_last_may_be_shorter():
    two = torch.ones(2, 2)
    wanted = torch.block_diag(two, two, torch.ones(1, 1)).bool()
    assert torch.equal(block_mask(5, block=2), wanted)
    assert torch.equal(block_mask(3, 5, block=2), wanted[-3:])


def test_the_limits_of_a_block_are_the_target_alone_and_everything():
    assert torch.equal(block_mask(6, block=1), torch.eye(6, dtype=torch.bool))
    for block in (7, 10**30):
        assert block_mask(5, 7, block=block).all()
        # whoever stands before the first source reads nothing, in blocks of any size
        assert block_mask(5, 3, block=block).sum(-1).tolist() == [0, 0, 3, 3, 3]


@given(n_targets=counts, n_sources=counts, block=blocks)
def test_causal_or_block_reads_the_own_block_and_those_before_it(n_targets, n_sources, block):
    mask = causal_mask(n_targets, n_sources) | block_mask(n_targets, n_sources, block=block)
    for t in range(n_targets):
        position = t + n_sources - n_targets
        for s in range(n_sources):
            assert mask[t, s].item() == (s // block <= position // block)


relations = st.integers(0, 5)


def random_mask(*shape: int, seed: int) -> torch.Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed)) < 0.4


@given(t=relations, r=relations, s=relations, seed=st.integers(0, 99))
def test_composition_is_its_definition(t, r, s, seed):
    later, earlier = random_mask(t, r, seed=seed), random_mask(r, s, seed=seed + 100)
    both = compose_masks(later, earlier)
    assert both.dtype == torch.bool
    wanted = definitions.compose_masks(later.numpy(), earlier.numpy().reshape(r, s))
    np.testing.assert_array_equal(both.numpy(), wanted)


@given(seed=st.integers(0, 99))
def test_composition_is_associative_and_the_diagonal_is_its_identity(seed):
    a, b, c = (
        random_mask(*shape, seed=seed + i) for i, shape in enumerate(((3, 5), (5, 2), (2, 7)))
    )
    assert torch.equal(compose_masks(compose_masks(a, b), c), compose_masks(a, compose_masks(b, c)))
    assert torch.equal(compose_masks(torch.eye(3, dtype=torch.bool), a), a)
    assert torch.equal(compose_masks(a, torch.eye(5, dtype=torch.bool)), a)


@given(seed=st.integers(0, 99))
def test_composition_distributes_over_or(seed):
    a, b, c = (
        random_mask(*shape, seed=seed + i) for i, shape in enumerate(((3, 5), (5, 2), (5, 2)))
    )
    assert torch.equal(compose_masks(a, b | c), compose_masks(a, b) | compose_masks(a, c))


@pytest.mark.parametrize("n_layers,window", [(1, 4), (2, 3), (3, 1), (3, 4), (5, 2)])
def test_layers_of_a_causal_window_compose_to_a_longer_one(n_layers, window):
    n, layer = 14, causal_mask(14, window=window)
    reached = layer
    for _ in range(n_layers - 1):
        reached = compose_masks(layer, reached)
    far = n_layers * (window - 1) + 1
    assert torch.equal(reached, causal_mask(n, window=far))
    assert reached[-1].sum().item() == far == definitions.reach(n_layers, window)


def test_a_causal_layer_composed_with_itself_is_itself():
    assert torch.equal(compose_masks(causal_mask(6), causal_mask(6)), causal_mask(6))
    assert torch.equal(compose_masks(causal_mask(2, 6), causal_mask(6)), causal_mask(2, 6))


def test_a_target_with_nothing_to_read_reaches_nothing():
    later = torch.tensor([[False, False], [True, False], [False, True]])
    earlier = torch.tensor([[True, False, True], [False, False, False]])
    assert compose_masks(later, earlier).int().tolist() == [[0, 0, 0], [1, 0, 1], [0, 0, 0]]


def test_axes_before_the_last_two_broadcast():
    documents = document_mask(torch.tensor([[0, 0, 1], [0, 1, 1]]))
    both = compose_masks(documents, causal_mask(3))
    assert tuple(both.shape) == (2, 1, 3, 3)
    assert torch.equal(both[1, 0], compose_masks(documents[1, 0], causal_mask(3)))


def test_composition_says_what_an_output_depends_on():
    # two layers of attention, random values: the Jacobian is zero exactly where nothing is reached
    n, windows = 6, (3, 2)
    layers = [(normal(1, 1, n, 4, seed=i), normal(1, 1, n, 4, seed=i + 2)) for i in range(2)]

    def two_layers(x):
        for (q, k), window in zip(layers, windows, strict=True):
            mask = causal_mask(n, window=window)
            x = dot_product_attention(q, k, x[None, None, :, None], may_attend=mask)[0, 0, :, 0]
        return x

    jacobian = torch.autograd.functional.jacobian(two_layers, normal(n, seed=4))
    reached = compose_masks(causal_mask(n, window=2), causal_mask(n, window=3))
    assert torch.equal(jacobian != 0, reached)
