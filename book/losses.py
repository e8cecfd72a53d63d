"""Whether a training that is repeated has the losses on record."""

import math

TOLERANCE = 1e-3


def loss_differences(losses: list[float], recorded: list[float]) -> list[str]:
    """What is not as recorded, in words; of the losses that both have."""
    apart = [abs(a - b) for a, b in zip(losses, recorded, strict=False)]
    largest = next((x for x in apart if not math.isfinite(x)), max(apart))
    if largest <= TOLERANCE:
        return []
    return [f"a loss differs by {largest:.2g} from that on record"]
