"""All planted faults. `bug` names the kind as users reported it against attention code."""

import faults_attention
import faults_embeddings
import faults_positions
import faults_sizes
import faults_tokenizer
from fault import Fault

FAULTS: tuple[Fault, ...] = (
    *faults_attention.FAULTS,
    *faults_embeddings.FAULTS,
    *faults_positions.FAULTS,
    *faults_sizes.FAULTS,
    *faults_tokenizer.FAULTS,
)
