"""What the reader may choose: one table for Python and for JavaScript.

`formulas.py` copies it into `formulas.mjs`, so a slider cannot reach a value that Python refuses.
"""

from __future__ import annotations

N_SOURCES = (2, 8)  # fewest and most scores or keys in a picture that stays readable
SCORE = (-5.0, 5.0)
TEMPERATURE = (0.05, 20.0)
KEY_DIM = (1, 1024)  # powers of two only
POSITION = (-3.0, 3.0)
BANDWIDTH = (0.05, 20.0)
KERNELS = ("gaussian", "dot-product")
ENCODING_POSITION = (0, 127)  # the rows of the map of a sinusoidal encoding
ENCODING_WIDTH = (4, 128)  # even numbers only
ENCODING_BASE = (100, 1_000, 10_000, 100_000, 1_000_000)
TURN_POSITION = (0, 64)
TURN_PAIR = (0, 31)  # the pairs of a head of width 64
TURN_ANGLE = (-179, 180)  # whole degrees; −180 would be 180 once more
TEXT_LENGTH = (0, 2000)  # characters of the text that a reader may type
N_MERGES = (0, 8192)  # of the tokenizer that a page carries
N_WORDS = (2, 800)  # of the vectors that a page carries
WORD_LENGTH = (1, 40)
N_COLUMNS = (1, 100)
N_NEIGHBOURS = 10  # so many are shown, fewer where there are fewer words
SCORE_EXPONENT = (0.0, 1.0)  # of d, which divides the scores
DISTRIBUTIONS = ("gaussian", "rademacher", "uniform", "heavy-tailed")
SAMPLE_QUERIES = 32  # rows of the fixed sample of scores
SAMPLE_KEYS = 64
JACOBIAN_SOURCES = (2, 64)
GAP = (0.0, 20.0)  # between the leaders' score and the others'
MASK_SIZE = (1, 16)  # targets and sources of a mask whose cells can be told apart
MASK_PART = (0, 16)  # a window, a prefix, padding; 0 is none of it
MASK_PLACE = (0, 15)
STREAM_WIDTH = (64, 8192)  # powers of two only, like the next three
N_HEADS = (1, 128)
HEAD_DIM = (1, 512)
N_READ_TOKENS = (16, 131_072)
N_MAP_TOKENS = (2, 64)  # attention maps of one text
N_MAP_LAYERS = (1, 48)
N_MAP_HEADS = (1, 64)
N_ALIGNED_TOKENS = (1, 24)  # of one number in words, in either language
N_ALIGNMENTS = (1, 64)
NUMBER_IN_WORDS = (0, 999_999)
N_NEXT_TOKENS = (1, 24)  # positions of a text, each with the logits of all tokens
VOCABULARY = (2, 65_536)
N_LOGITS = 1_048_576  # of all positions together: two bytes each
TOKEN_LENGTH = (0, 256)  # of one token's text; some tokens have none
SAMPLING_TEMPERATURE = (0.1, 5.0)
TOP_K = (0, 65_536)  # 0 is none
TOP_P = (0.01, 1.0)
MIN_P = (0.0, 1.0)
COST_MODELS = (
    "llama-3.1-70b",
    "llama-3.2-1b",
    "llama-2-7b",
    "smollm2-135m",
    "gemma-3-27b",
    "gemma-3-270m",
    "deepseek-v2",
    "deepseek-v3",
)
COST_DEVICES = ("a100", "h100", "h200", "t4")
COST_PHASES = ("decode", "prefill")
COST_CONTEXT = (16, 131_072)  # powers of two only, like the next
COST_ROWS = (1, 256)
COST_BYTES = (1, 2, 4)  # of a weight and of a number in the cache
GENERATION_LAYERS = (1, 2, 4)  # of the models whose generation was timed
GENERATION_HEADS = (2, 4, 8)
GENERATION_HEAD_DIM = 32  # of all of them
GENERATION_LENGTHS = (32, 48, 64, 96, 128, 192, 256, 384, 512)  # new tokens
GENERATION_DEVICES = ("cpu", "cuda")
LATENT_MODELS = ("deepseek-v2", "deepseek-v3")  # whose residual stream the layer stands on
KV_LATENT = (64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048)
ROPE_DIM = (0, 128)  # even numbers only; 0 is none
# With the least of both, keys and values of all heads are as wide as the widest latent.
LATENT_HEADS = (32, 256)  # powers of two only
LATENT_HEAD_DIM = (64, 96, 128, 192, 256)  # of a head's part without rotation, and of its values
LATENT_KV_HEADS = 8  # of the attention beside it, as Llama 3 has them
LATENT_CONTEXT = (1, 131_072)  # powers of two only
FITTING_MODELS = (
    "smollm2-135m",
    "gpt-2",
    "gpt-2-xl",
    "gpt-3",
    "llama-2-7b",
    "llama-3-8b",
    "llama-3-70b",
    "llama-3.1-70b",
    "llama-3.2-1b",
    "gemma-3-270m",
    "gemma-3-27b",
    "deepseek-67b",
    "deepseek-v2",
    "deepseek-v3",
)
FITTING_CONTEXT = (1, 131_072)  # powers of two only, like the next
FITTING_ROWS = (1, 256)
WEIGHT_BYTES = (0.5, 1, 2, 4)
CACHE_BYTES = (0.5, 0.75, 1, 2, 4)
CARD_GIB = (8, 16, 24, 40, 80, 160, 320, 640)  # of one card, or of several together
KEY_VALUE_MODELS = (
    "llama-3.1-70b",
    "llama-3-8b",
    "llama-3.2-1b",
    "llama-2-7b",
    "smollm2-135m",
    "gemma-3-27b",
    "gemma-3-270m",
    "deepseek-67b",
    "deepseek-v2",
    "deepseek-v3",
    "gpt-2",
    "gpt-2-xl",
    "gpt-3",
    "own",  # the reader's own sizes
)
KEY_VALUE_HEADS = (1, 128)  # query heads, and so the most key/value heads
KEY_VALUE_PLACE = (0, 127)  # of the query head that is looked at
KEY_VALUE_HEAD_DIM = (16, 512)  # powers of two only
KEY_VALUE_LAYERS = (1, 128)
KEY_VALUE_WIDTH = (  # of the stream: those of the models, and some between them
    *(256, 384, 512, 576, 640, 768, 1024, 1600, 2048, 3072),
    *(4096, 5120, 5376, 7168, 8192, 12_288, 16_384),
)

LIMITS = {
    "n_sources": N_SOURCES,
    "score": SCORE,
    "temperature": TEMPERATURE,
    "key_dim": KEY_DIM,
    "position": POSITION,
    "bandwidth": BANDWIDTH,
    "kernels": KERNELS,
    "encoding_position": ENCODING_POSITION,
    "encoding_width": ENCODING_WIDTH,
    "encoding_base": ENCODING_BASE,
    "turn_position": TURN_POSITION,
    "turn_pair": TURN_PAIR,
    "turn_angle": TURN_ANGLE,
    "text_length": TEXT_LENGTH,
    "n_merges": N_MERGES,
    "n_words": N_WORDS,
    "word_length": WORD_LENGTH,
    "n_columns": N_COLUMNS,
    "n_neighbours": N_NEIGHBOURS,
    "score_exponent": SCORE_EXPONENT,
    "distributions": DISTRIBUTIONS,
    "sample_queries": SAMPLE_QUERIES,
    "sample_keys": SAMPLE_KEYS,
    "jacobian_sources": JACOBIAN_SOURCES,
    "gap": GAP,
    "mask_size": MASK_SIZE,
    "mask_part": MASK_PART,
    "mask_place": MASK_PLACE,
    "stream_width": STREAM_WIDTH,
    "n_heads": N_HEADS,
    "head_dim": HEAD_DIM,
    "n_read_tokens": N_READ_TOKENS,
    "n_map_tokens": N_MAP_TOKENS,
    "n_map_layers": N_MAP_LAYERS,
    "n_map_heads": N_MAP_HEADS,
    "n_aligned_tokens": N_ALIGNED_TOKENS,
    "n_alignments": N_ALIGNMENTS,
    "number_in_words": NUMBER_IN_WORDS,
    "n_next_tokens": N_NEXT_TOKENS,
    "vocabulary": VOCABULARY,
    "n_logits": N_LOGITS,
    "token_length": TOKEN_LENGTH,
    "sampling_temperature": SAMPLING_TEMPERATURE,
    "top_k": TOP_K,
    "top_p": TOP_P,
    "min_p": MIN_P,
    "cost_models": COST_MODELS,
    "cost_devices": COST_DEVICES,
    "cost_phases": COST_PHASES,
    "cost_context": COST_CONTEXT,
    "cost_rows": COST_ROWS,
    "cost_bytes": COST_BYTES,
    "generation_layers": GENERATION_LAYERS,
    "generation_heads": GENERATION_HEADS,
    "generation_head_dim": GENERATION_HEAD_DIM,
    "generation_lengths": GENERATION_LENGTHS,
    "generation_devices": GENERATION_DEVICES,
    "latent_models": LATENT_MODELS,
    "kv_latent": KV_LATENT,
    "rope_dim": ROPE_DIM,
    "latent_heads": LATENT_HEADS,
    "latent_head_dim": LATENT_HEAD_DIM,
    "latent_kv_heads": LATENT_KV_HEADS,
    "latent_context": LATENT_CONTEXT,
    "fitting_models": FITTING_MODELS,
    "fitting_context": FITTING_CONTEXT,
    "fitting_rows": FITTING_ROWS,
    "weight_bytes": WEIGHT_BYTES,
    "cache_bytes": CACHE_BYTES,
    "card_gib": CARD_GIB,
    "key_value_models": KEY_VALUE_MODELS,
    "key_value_heads": KEY_VALUE_HEADS,
    "key_value_place": KEY_VALUE_PLACE,
    "key_value_head_dim": KEY_VALUE_HEAD_DIM,
    "key_value_layers": KEY_VALUE_LAYERS,
    "key_value_width": KEY_VALUE_WIDTH,
}
