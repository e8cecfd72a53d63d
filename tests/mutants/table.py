"""All planted faults. `bug` names the kind as users reported it against attention code."""

import faults_attention
import faults_caches
import faults_cost
import faults_counting_and_caching
import faults_embeddings
import faults_experts
import faults_explorer_generation
import faults_explorer_key_value_heads
import faults_explorer_next_token
import faults_explorers_of_heads
import faults_explorers_of_latents
import faults_explorers_of_scores
import faults_fast_decoding
import faults_generation
import faults_judges_of_latents
import faults_latent
import faults_layers
import faults_layers_and_language
import faults_masks
import faults_models
import faults_models_compared
import faults_n_grams
import faults_number_words
import faults_positions
import faults_pretrained
import faults_scores_and_heads
import faults_shakespeare
import faults_shared_heads
import faults_sizes
import faults_timing
import faults_tokenizer
from fault import Fault

FAULTS: tuple[Fault, ...] = (
    *faults_attention.FAULTS,
    *faults_caches.FAULTS,
    *faults_cost.FAULTS,
    *faults_counting_and_caching.FAULTS,
    *faults_embeddings.FAULTS,
    *faults_experts.FAULTS,
    *faults_explorer_generation.FAULTS,
    *faults_explorer_key_value_heads.FAULTS,
    *faults_explorer_next_token.FAULTS,
    *faults_explorers_of_heads.FAULTS,
    *faults_explorers_of_latents.FAULTS,
    *faults_explorers_of_scores.FAULTS,
    *faults_fast_decoding.FAULTS,
    *faults_generation.FAULTS,
    *faults_judges_of_latents.FAULTS,
    *faults_latent.FAULTS,
    *faults_layers.FAULTS,
    *faults_layers_and_language.FAULTS,
    *faults_masks.FAULTS,
    *faults_models.FAULTS,
    *faults_models_compared.FAULTS,
    *faults_n_grams.FAULTS,
    *faults_number_words.FAULTS,
    *faults_positions.FAULTS,
    *faults_pretrained.FAULTS,
    *faults_scores_and_heads.FAULTS,
    *faults_shakespeare.FAULTS,
    *faults_shared_heads.FAULTS,
    *faults_sizes.FAULTS,
    *faults_timing.FAULTS,
    *faults_tokenizer.FAULTS,
)
