"""All planted faults. `bug` names the kind as users reported it against attention code."""

import faults_attention
from fault import Fault

FAULTS: tuple[Fault, ...] = (*faults_attention.FAULTS,)
