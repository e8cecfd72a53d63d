"""The encoder is BERT as transformers has it, weight for weight, on random and on real weights.

Nothing is downloaded. The real weights are used where they are (`make weights`); elsewhere the
tests of them say that they did not run.
"""

from dataclasses import replace

import numpy as np
import pytest
import safetensors.torch
import torch
import transformers
from scipy.spatial.distance import jensenshannon

import make_attention
from attnlib import PUBLISHED, AttentionSizes, load_pretrained
from attnlib.data import declaration, pretrained_attention
from attnlib.pretrained import SOURCES, folder_of, load_encoder

# BERT's heads have the width m/h; all else differs.
B, T, H, D, M, INNER, V, CONTEXT, LAYERS = 3, 5, 4, 2, 8, 11, 13, 9, 6


@pytest.fixture(scope="module", params=[torch.float64, torch.float32], ids=["fp64", "fp32"])
def small(request, tmp_path_factory):
    """A BERT with random weights, those of norms and biases too, and ours from its file."""
    path = tmp_path_factory.mktemp("bert") / "model.safetensors"
    config = transformers.BertConfig(
        vocab_size=V,
        hidden_size=M,
        num_hidden_layers=LAYERS,
        num_attention_heads=H,
        intermediate_size=INNER,
        max_position_embeddings=CONTEXT,
        layer_norm_eps=1e-3,
        attn_implementation="eager",
    )
    bert = transformers.BertModel(config).eval()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, parameter in bert.named_parameters():
            random = torch.randn(parameter.shape, generator=generator)
            parameter.copy_(0.5 * random + (name.endswith("LayerNorm.weight")))
    safetensors.torch.save_file(bert.state_dict(), path)
    heads = AttentionSizes(n_query_heads=H, n_kv_heads=H, head_dim=D, value_dim=D, biases=True)
    sizes = replace(
        PUBLISHED["minilm-l6"],
        name="a small BERT",
        source="made up for a test",
        n_layers=LAYERS,
        width=M,
        attention=heads,
        feed_forward_width=INNER,
        vocabulary=V,
        norm_epsilon=1e-3,
        context=CONTEXT,
    )
    return bert.to(request.param), load_encoder(path, sizes).to(request.param)


def outputs(bert, tokens, is_token, segments=None):
    """BERT is told the positions: of itself it counts the padding on the left too."""
    with torch.no_grad():
        return bert(
            input_ids=tokens,
            attention_mask=is_token.long(),
            token_type_ids=segments,
            position_ids=(is_token.cumsum(-1) - 1).clamp(min=0),
            output_hidden_states=True,
            output_attentions=True,
        )


def assert_same(bert, encoder, tokens, is_token, segments=None, atol=1e-12):
    """States, weights and summary, at the places of tokens: the others mean nothing in either."""
    wanted = outputs(bert, tokens, is_token, segments)
    given = {"is_token": is_token, "segments": segments}
    with torch.no_grad():
        states, weights = (
            encoder.states(tokens, **given),
            encoder.attention_weights(tokens, **given),
        )
        pooled = encoder.pooled(tokens, **given) if is_token[:, 0].all() else None
    assert len(states) == len(wanted.hidden_states) and len(weights) == len(wanted.attentions)
    for ours, theirs in zip(states, wanted.hidden_states, strict=True):
        torch.testing.assert_close(ours[is_token], theirs[is_token], rtol=0, atol=atol)
    for ours, theirs in zip(weights, wanted.attentions, strict=True):
        of_tokens = is_token[:, None, :].expand(ours.shape[:-1])
        torch.testing.assert_close(ours[of_tokens], theirs[of_tokens], rtol=0, atol=atol)
    if pooled is not None:
        torch.testing.assert_close(pooled, wanted.pooler_output, rtol=0, atol=atol)


# --- random weights ---------------------------------------------------------------------------


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize(
    "lengths",
    [(T, T, T), (T, 2, 1), (CONTEXT, 1, CONTEXT), (1, 1, 1)],
    ids=["whole rows", "padded rows", "longest rows", "one token a row"],
)
def test_a_small_encoder_is_a_small_bert(small, lengths, side):
    bert, encoder = small
    generator = torch.Generator().manual_seed(1)
    t = max(lengths)
    tokens = torch.randint(V, (B, t), generator=generator)
    segments = torch.randint(2, (B, t), generator=generator)
    is_token = torch.arange(t) < torch.tensor(lengths)[:, None]
    is_token = is_token if side == "right" else is_token.flip(1)
    # in fp64 10⁴ roundings; fp32 rounds as often, and its rounding is 2⁻²⁴
    atol = 1e-12 if bert.dtype == torch.float64 else 1e4 * 2**-24
    assert_same(bert, encoder, tokens, is_token, segments, atol=atol)


def test_all_weights_of_bert_are_used_and_none_is_used_twice(small):
    bert, encoder = small
    assert sum(p.numel() for p in encoder.parameters()) == sum(p.numel() for p in bert.parameters())


# --- real weights -----------------------------------------------------------------------------

PLAIN = "But soft! what light through yonder window breaks?"
TEXTS = [PLAIN, "", declaration("en")[:400], "Éclair, naïve; 東京 and ZÜRICH? 3.14159 (unaffable)"]


@pytest.fixture(scope="module")
def minilm(request):
    # the Hub's two files are not enough: its configuration and tokenizer are read here, too
    if SOURCES["minilm-l6"].installed() is None:
        why = "MiniLM's package is not here (make weights): the tests of it did not run."
        with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
            print(f"\n{why}")
        pytest.skip(why)
    pretrained = load_pretrained("minilm-l6")
    pretrained.model.double().requires_grad_(False)
    return pretrained


@pytest.fixture(scope="module")
def bert(minilm):
    config = transformers.BertConfig.from_pretrained(folder_of("minilm-l6"))
    config._attn_implementation = "eager"
    bert = transformers.BertModel(config).eval()
    tensors = safetensors.torch.load_file(folder_of("minilm-l6") / "model.safetensors")
    missing, more = bert.load_state_dict(tensors, strict=False)
    assert set(missing) | set(more) <= {"embeddings.position_ids"}
    return bert.double().requires_grad_(False)


def test_minilm_is_the_bert_of_its_weights(minilm, bert):
    tokens, is_token = minilm.batch(TEXTS)
    assert_same(bert, minilm.model, tokens, is_token)


def test_minilm_cuts_texts_as_its_own_tokenizer_does(minilm):
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_file=str(folder_of("minilm-l6") / "tokenizer.json")
    )
    tokenizer.backend_tokenizer.no_truncation()
    tokenizer.backend_tokenizer.no_padding()
    for text in TEXTS:
        assert minilm.encode(text) == tokenizer(text)["input_ids"]


def test_sentences_of_one_meaning_are_close(minilm):
    tokens, is_token = minilm.batch(
        ["The king is dead.", "The monarch has died.", "Add a cup of sugar."]
    )
    vectors = minilm.model.sentence_vectors(tokens, is_token=is_token)
    same, other = (torch.cosine_similarity(vectors[0], vectors[i], dim=0) for i in (1, 2))
    assert same > 0.7 > 0.2 > other


# --- what the package stores of them ----------------------------------------------------------


def test_the_stored_weights_are_those_of_bert(minilm, bert):
    stored = pretrained_attention("minilm")
    tokens = torch.tensor([minilm.encode(stored.sentence)])
    wanted = outputs(bert, tokens, torch.ones_like(tokens).bool())
    weights = torch.cat(wanted.attentions).numpy()
    # half a step of 1/65535, and then the rounding to fp32
    np.testing.assert_allclose(stored.weights, weights, rtol=0, atol=0.5 / 65535 + 2**-24)


def test_the_stored_states_and_matrices_are_those_of_bert_in_half_precision(minilm, bert):
    stored = pretrained_attention("minilm")
    tokens = torch.tensor([minilm.encode(declaration("en"))[:128]])
    states = outputs(bert, tokens, torch.ones_like(tokens).bool()).hidden_states[0][0]
    first = bert.encoder.layer[0].attention.self
    pairs = [(stored.states, states)]
    for name in ("query", "key", "value"):
        pairs.append((getattr(stored, f"{name}_weight"), getattr(first, name).weight))
        pairs.append((getattr(stored, f"{name}_bias"), getattr(first, name).bias))
    for half, exact in pairs:
        # at most half a step of float16: 2⁻¹¹ of the number, or 2⁻²⁵ where it is subnormal
        np.testing.assert_allclose(half, exact.numpy(), rtol=2**-11, atol=2**-25)


@pytest.fixture(scope="module")
def passages(minilm, bert):
    """What BERT makes of the passages: its states, and the weights by head, target and source."""
    tokens = torch.tensor(make_attention.passages_of_plays(minilm))
    assert tokens.shape == (8, 128)
    wanted = outputs(bert, tokens, torch.ones_like(tokens).bool())
    weights = torch.stack(wanted.attentions).transpose(1, 2).flatten(0, 1).flatten(1, 2)
    return wanted.hidden_states, weights.numpy()


def test_the_stored_entropies_are_those_of_their_definition(passages):
    rows = passages[1]
    logs = np.log(np.where(rows > 0, rows, 1.0))
    entropies = -(rows * logs).sum(-1).mean(-1).reshape(6, 12)
    np.testing.assert_allclose(pretrained_attention().entropies, entropies, rtol=5.1e-4)


def test_the_stored_divergences_are_those_of_scipy(passages):
    rows, stored = passages[1], pretrained_attention().divergences
    for i, j in ((0, 1), (2, 40), (7, 11), (12, 71), (63, 65)):
        # scipy gives the root of the divergence
        wanted = (jensenshannon(rows[i], rows[j], axis=1) ** 2).mean()
        assert abs(stored[i, j] - wanted) < 0.5e-5 + 2**-24


def test_the_stored_scores_are_those_of_berts_queries_and_keys(passages, bert):
    stored = pretrained_attention()
    for layer in (0, 3, 5):
        x, heads = passages[0][layer], bert.encoder.layer[layer].attention.self
        q, k = (f(x).reshape(8, 128, 12, 32).numpy() for f in (heads.query, heads.key))
        products = np.einsum("bthd,bshd->hbts", q, k).reshape(12, -1)
        np.testing.assert_allclose(stored.score_spread[layer], products.std(1), rtol=5.1e-4)
        largest = np.abs(products).max(1) / np.sqrt(32)
        np.testing.assert_allclose(stored.score_maximum[layer], largest, rtol=5.1e-4)


def test_the_stored_ablations_are_those_of_bert_without_values(minilm, bert):
    """A value of a head is zero if its rows of the value matrix and of its bias are."""
    texts = [line for line in declaration("en").splitlines() if line[-1:] in list(".,;:")]
    stored = pretrained_attention("minilm")
    assert len(texts) == stored.n_paragraphs
    layers = bert.encoder.layer
    cases = [
        (3, slice(32 * 4, 32 * 5), stored.ablations[3, 4]),
        (5, slice(32 * 10, 32 * 11), stored.ablations[5, 10]),
        (2, slice(384), stored.layer_ablations[2]),
        (5, slice(384), stored.layer_ablations[5]),
    ]
    wholes, losses = [], [[] for _ in cases]
    for text in texts:  # each by itself, so that nothing is spent on padding
        tokens = torch.tensor([minilm.encode(text)])
        states = outputs(bert, tokens, torch.ones_like(tokens).bool()).hidden_states
        wholes.append(states[-1][0].mean(0))
        for (layer, rows, _), lost in zip(cases, losses, strict=True):
            x = without_values(layers[layer], rows, states[layer])
            for later in layers[layer + 1 :]:
                x = later(x)
            lost.append(1 - torch.cosine_similarity(x[0].mean(0), wholes[-1], dim=0).item())
    for (*_, wanted), lost in zip(cases, losses, strict=True):
        assert abs(np.mean(lost) / wanted - 1) < 5.1e-4

    vectors = torch.stack(wholes)
    cosines = torch.cosine_similarity(vectors[:, None], vectors, dim=-1)
    pairs = torch.ones_like(cosines).tril(-1) == 1
    distance = 1 - cosines[pairs].mean().item()
    assert abs(distance / stored.paragraph_distance - 1) < 5.1e-4


def without_values(layer, rows, x):
    """What leaves a layer of BERT while these rows of its values are zero."""
    value = layer.attention.self.value
    kept = value.weight[rows].clone(), value.bias[rows].clone()
    value.weight[rows], value.bias[rows] = 0.0, 0.0
    out = layer(x)
    value.weight[rows], value.bias[rows] = kept
    return out
