"""All planted faults. `bug` names the kind as users reported it against attention code."""

import faults_attention
import faults_embeddings
import faults_explorers_of_heads
import faults_explorers_of_scores
import faults_layers
import faults_masks
import faults_models
import faults_positions
import faults_scores_and_heads
import faults_sizes
import faults_tokenizer
from fault import Fault

FAULTS: tuple[Fault, ...] = (
    *faults_attention.FAULTS,
    *faults_embeddings.FAULTS,
    *faults_explorers_of_heads.FAULTS,
    *faults_explorers_of_scores.FAULTS,
    *faults_layers.FAULTS,
    *faults_masks.FAULTS,
    *faults_models.FAULTS,
    *faults_positions.FAULTS,
    *faults_scores_and_heads.FAULTS,
    *faults_sizes.FAULTS,
    *faults_tokenizer.FAULTS,
)
