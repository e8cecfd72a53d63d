"""Number words: tokens, batches, the loss, and what a translator writes and reads.

The book's own translator stands for a trained one. A small one with random weights does where the
numbers only have to be the same by two ways.
"""

from dataclasses import replace
from itertools import islice

import pytest
import torch
import torch.nn.functional as F

from attnlib import AttentionSizes, EncoderDecoder, NumberWordsTokenizer, load_pretrained
from attnlib.data import number_words
from attnlib.number_words import (
    Alignment,
    alignments,
    as_batch,
    batches,
    exact_match,
    meaning_shares,
    token_accuracy,
    translate,
    translation_loss,
)
from attnlib.sizes import TRAINED

TOKENIZER = NumberWordsTokenizer()
PAIRS = [
    (0, "zero", "null"),
    (7, "seven", "sieben"),
    (21, "twenty-one", "einundzwanzig"),
    (116, "one hundred and sixteen", "einhundertsechzehn"),
    (1_001, "one thousand and one", "eintausendeins"),
]


def small() -> EncoderDecoder:
    """Random weights, all sizes different, in float64."""
    sizes = replace(
        TRAINED["number-words"],
        n_layers=2,
        n_encoder_layers=1,
        width=12,
        attention=AttentionSizes(n_query_heads=3, n_kv_heads=3, head_dim=5, value_dim=4),
        feed_forward_width=17,
    )
    model = EncoderDecoder(sizes)
    model.reset_parameters(generator=torch.Generator().manual_seed(3))
    return model.double()


# --- tokens -----------------------------------------------------------------------------------


def test_german_is_cut_into_the_longest_pieces():
    cut = {
        "einundzwanzig": "ein ##und ##zwanzig",
        "eins": "eins",
        "einhunderteins": "ein ##hundert ##eins",
        "siebzehntausend": "siebzehn ##tausend",
        "siebenundsiebzig": "sieben ##und ##siebzig",
        "einhundertsechzehn": "ein ##hundert ##sechzehn",
        "sechstausendsechsundsechzig": "sechs ##tausend ##sechs ##und ##sechzig",
        "zwölftausenddreizehn": "zwölf ##tausend ##dreizehn",
        "null": "null",
    }
    assert {word: " ".join(TOKENIZER.german_tokens(word)) for word in cut} == cut


def test_english_is_cut_into_words_and_loses_only_marks_and_capitals():
    assert TOKENIZER.english_tokens("One thousand, two hundred and thirty-four") == [
        *("one", "thousand", "two", "hundred", "and", "thirty", "four"),
    ]


@pytest.mark.parametrize("split", ["held-out", "examples"])
def test_german_comes_back_from_its_ids(split):
    for _, _, german in number_words(split):
        ids = TOKENIZER.encode_german(german)
        assert (ids[0], ids[-1]) == (TOKENIZER.begin, TOKENIZER.end)
        assert TOKENIZER.decode(ids) == german


def test_english_words_come_back_and_are_those_of_one_number_only():
    pairs = [pair for split in ("held-out", "train") for pair in number_words(split)]
    words = [" ".join(TOKENIZER.english_tokens(english)) for _, english, _ in pairs]
    assert len(set(words)) == len(pairs)
    for text in words[:1000]:
        assert TOKENIZER.decode(TOKENIZER.encode_english(text)) == text


def test_the_ids_are_the_places_of_the_tokens_and_no_token_stands_twice():
    assert TOKENIZER.tokens[:3] == ("[PAD]", "[BEGIN]", "[END]")
    assert (TOKENIZER.pad, TOKENIZER.begin, TOKENIZER.end) == (0, 1, 2)
    assert len(set(TOKENIZER.tokens)) == TOKENIZER.vocab_size == 94
    for i, token in enumerate(TOKENIZER.tokens[3:34], start=3):
        assert TOKENIZER.encode_english(token) == [i]


def test_a_letter_may_be_written_in_two_parts_and_capitals_do_not_matter():
    decomposed = "Fu\u0308nfundzwo\u0308lf"
    assert TOKENIZER.german_tokens(decomposed) == ["fünf", "##und", "##zwölf"]


# --- batches ----------------------------------------------------------------------------------


def test_rows_are_filled_up_on_the_right_and_say_where_tokens_stand():
    batch = as_batch(PAIRS)
    assert batch.source.shape == (5, 4) and batch.tokens.shape == (5, 5)
    for i, (_, english, german) in enumerate(PAIRS):
        assert batch.source[i][batch.is_source[i]].tolist() == TOKENIZER.encode_english(english)
        assert batch.tokens[i][batch.is_token[i]].tolist() == TOKENIZER.encode_german(german)
        assert not batch.source[i][~batch.is_source[i]].any()
        assert batch.is_token[i].tolist() == sorted(batch.is_token[i].tolist(), reverse=True)


def numbers_in(batch) -> list[str]:
    return [TOKENIZER.decode(row) for row in batch.tokens]


def test_a_pass_takes_every_pair_once_and_the_next_one_in_another_order():
    pairs = number_words("held-out")[:60]
    drawn = list(islice(batches(pairs, 12, torch.Generator().manual_seed(1)), 10))
    first, second = (
        [word for batch in half for word in numbers_in(batch)] for half in (drawn[:5], drawn[5:])
    )
    assert sorted(first) == sorted(second) == sorted(german for _, _, german in pairs)
    assert first != second != [german for _, _, german in pairs]


def test_the_same_generator_gives_the_same_batches_and_source_and_target_stay_together():
    english = {german: text for _, text, german in PAIRS}
    first, again = (
        list(islice(batches(PAIRS, 2, torch.Generator().manual_seed(5)), 4)) for _ in range(2)
    )
    for one, other in zip(first, again, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))
        for source, german in zip(one.source, numbers_in(one), strict=True):
            words = TOKENIZER.english_tokens(english[german])
            assert TOKENIZER.decode(source).split() == words


def test_a_batch_is_no_wider_than_its_longest_row_and_what_fills_none_is_left_out():
    drawn = list(islice(batches(PAIRS, 2, torch.Generator().manual_seed(2)), 40))
    for batch in drawn:
        assert batch.is_source.any(0).all() and batch.is_token.any(0).all()
    for start in range(0, 40, 2):  # two batches of two a pass: one pair of five is left out
        words = [word for batch in drawn[start : start + 2] for word in numbers_in(batch)]
        assert len(set(words)) == 4


# --- the loss ---------------------------------------------------------------------------------


def test_the_loss_is_the_mean_over_the_pieces_of_all_rows_each_read_by_itself():
    model, terms = small(), []
    for _, english, german in PAIRS:
        source = torch.tensor([TOKENIZER.encode_english(english)])
        ids = TOKENIZER.encode_german(german)
        for t in range(1, len(ids)):
            logits = model(source, torch.tensor([ids[:t]]))
            terms.append(-F.log_softmax(logits[0, -1], dim=0)[ids[t]])
    wanted = torch.stack(terms).mean()
    # A sum of 19 terms and as many roundings in each sum of the model; 1e-12 leaves room.
    torch.testing.assert_close(
        translation_loss(model, as_batch(PAIRS)), wanted, rtol=1e-12, atol=1e-12
    )


def test_the_accuracy_under_teacher_forcing_counts_pieces_and_ends():
    model, right, n = small(), 0, 0
    for _, english, german in PAIRS:
        source = torch.tensor([TOKENIZER.encode_english(english)])
        ids = torch.tensor([TOKENIZER.encode_german(german)])
        right += int((model(source, ids[:, :-1]).argmax(-1) == ids[:, 1:]).sum())
        n += ids.shape[1] - 1
    assert token_accuracy(model, PAIRS) == right / n == right / 19


# --- what a translator writes -------------------------------------------------------------------


@pytest.fixture(scope="module")
def translator():
    return load_pretrained("number-words").model


def test_the_books_translator_writes_what_it_never_saw(translator):
    held_out = number_words("held-out")[::20]
    # 0.5 % of wrong ones are allowed for 1,000: of 50, two would be many.
    assert exact_match(translator, held_out) >= 0.98
    assert exact_match(translator, [(n, e, g[:-1]) for n, e, g in held_out]) == 0.0


def test_numbers_written_together_are_those_written_alone(translator):
    texts = [english for _, english, _ in number_words("examples")[::5]]
    assert translate(translator, texts) == [translate(translator, [text])[0] for text in texts]
    assert translate(translator, []) == []


def test_one_wrong_piece_is_a_wrong_number_but_few_wrong_tokens(translator):
    right = [(21, "twenty-one", "einundzwanzig"), (32, "thirty-two", "zweiunddreißig")]
    wrong = [right[0], (32, "thirty-two", "dreiunddreißig")]
    assert (exact_match(translator, right), exact_match(translator, wrong)) == (1.0, 0.5)
    assert token_accuracy(translator, right) == 1.0
    assert 0.75 <= token_accuracy(translator, wrong) < 1.0


def test_measuring_leaves_the_models_mode_and_takes_no_dropout(translator):
    model = EncoderDecoder(translator.sizes, dropout=0.5).train()
    model.load_state_dict(translator.state_dict())
    model.encoder.eval()
    for measure in (
        lambda it: exact_match(it, PAIRS),
        lambda it: token_accuracy(it, PAIRS),
        lambda it: translate(it, ["seven"]),
        lambda it: [each.weights.tolist() for each in alignments(it, PAIRS)],
    ):
        assert measure(model) == measure(translator)
        assert model.training and model.decoder.training and not model.encoder.training


# --- what it reads ------------------------------------------------------------------------------


def test_the_row_of_a_piece_is_what_was_read_when_it_was_written(translator):
    for each, (number, english, german) in zip(alignments(translator, PAIRS), PAIRS, strict=True):
        assert (each.number, each.source) == (number, tuple(TOKENIZER.english_tokens(english)))
        assert each.target == (*TOKENIZER.german_tokens(german), "[END]")
        ids = TOKENIZER.encode_german(german)
        source = torch.tensor([TOKENIZER.encode_english(english)])
        with torch.no_grad():
            alone = translator.cross_attention_weights(source, torch.tensor([ids[:-1]]))[:, 0]
        # Sums in another order where rows are padded: some roundings of 2⁻²⁴ for weights below 1.
        torch.testing.assert_close(each.weights, alone, rtol=0, atol=1e-5)
        torch.testing.assert_close(each.weights.sum(-1), torch.ones(alone.shape[:-1]))


def test_some_head_of_the_translator_reads_the_ones_before_the_tens(translator):
    pairs = [pair for pair in number_words("examples") if pair[0] in (21, 42, 76, 84)]
    for each in alignments(translator, pairs):
        ones_first = each.weights[..., 0, 1] * each.weights[..., 2, 0]
        assert ones_first.max() > 0.5


def test_a_piece_means_the_word_of_the_same_number():
    words = [pair for pair in number_words("train") if len(TOKENIZER.english_tokens(pair[1])) == 1]
    assert len(words) == 28  # from zero to twenty, and the other tens
    for number, english, german in words:
        on_it = Alignment(number, (english, "and"), (german, "[END]"), torch.eye(2)[None, None])
        assert meaning_shares([on_it]) == 1
        beside = on_it._replace(weights=on_it.weights.flip(-1))
        assert meaning_shares([beside]) == 0
    larger = Alignment(7, ("hundred", "thousand"), ("##hundert", "##tausend"), torch.eye(2)[None])
    assert meaning_shares([larger]) == 1


def test_the_share_is_a_mean_over_pieces_that_mean_a_number_and_adds_equal_words():
    rows = torch.tensor([[0.5, 0.25, 0.25], [0.1, 0.9, 0.0], [0.0, 1.0, 0.0], [0.3, 0.3, 0.4]])
    pieces = ("ein", "##und", "##zwanzig", "[END]")
    found = Alignment(21, ("one", "twenty", "one"), pieces, torch.stack([rows, rows.flip(1)])[None])
    # "ein": 0.5 + 0.25 on both; "zwanzig": 1 on the middle word; "und" and [END] do not count.
    torch.testing.assert_close(meaning_shares([found]), torch.full((1, 2), 0.875))


def test_the_clearest_head_of_the_translator_reads_nearly_always_what_the_piece_means(translator):
    shares = meaning_shares(alignments(translator, number_words("examples")))
    assert shares.shape == (2, 4)
    assert shares.max() > 0.9
