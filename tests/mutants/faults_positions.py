"""Faults in sinusoids, rotations, their scalings, linear biases and padded positions.

B61 to B68 are about positions. B38, a table of rotations sliced without the start position of a
cached step, is a fault of whoever calls `rotate`; here it stands as a rotation that ignores the
positions which it is given.
"""

from fault import fault

POSITIONS = "attnlib/positions.py"
CHECKS = "attnlib/tensor_checks.py"
EXERCISES = "attnlib/exercises/positions.py"
DEFINITIONS = "attnlib/definitions/of_positions.py"

T_POSITIONS = "tests/test_positions.py"
T_DEFINITIONS = "tests/test_definitions.py"
T_EXERCISES = "tests/test_exercises.py"
T_REFUSALS = "tests/refusals/test_positions_refusals.py"  # run without the shape hook

_EXPONENTS = "exponents = torch.arange(0, width, 2, dtype=torch.float64) / width"
_PAIRS = "pairs = torch.stack([angles.sin(), angles.cos()], dim=-1)"
_TURN = 'turn = _turn_halves if pairing == "half" else _turn_neighbours'
_PADDED = "return (is_token.cumsum(dim=-1) - 1).clamp(min=0)"
_ANGLES = "return positions.double()[..., None] * frequencies.to(positions.device, torch.float64)"
_BESIDE = "return (*(slice(None),) * (angles.ndim - 2), *(None,) * n_heads_axes)"

FAULTS = (
    # --- pairings -----------------------------------------------------------------------------
    fault(
        "the two pairings have changed places",
        POSITIONS,
        T_POSITIONS,
        (_TURN, 'turn = _turn_neighbours if pairing == "half" else _turn_halves'),
        bug="B61",
    ),
    fault(
        "the permutation leads back instead of across",
        POSITIONS,
        T_POSITIONS,
        ('"(i two) -> (two i)", two=2)', '"(two i) -> (i two)", two=2)'),
        bug="B61",
    ),
    fault(
        "an unknown pairing is taken for neighbours",
        POSITIONS,
        T_REFUSALS,
        ('if not isinstance(pairing, str) or pairing not in ("half", "interleaved"):', "if False:"),
        bug="B61",
    ),
    fault(
        "the pairing has a default",
        POSITIONS,
        T_REFUSALS,
        ("    pairing: Pairing,\n", '    pairing: Pairing = "half",\n'),
        bug="B61",
    ),
    # --- frequencies --------------------------------------------------------------------------
    fault(
        "the 2 of the exponent is there twice",
        POSITIONS,
        T_POSITIONS,
        (_EXPONENTS, _EXPONENTS.replace("/ width", "* 2 / width")),
        bug="B62",
    ),
    fault(
        "the definition has the 2 of the exponent twice",
        DEFINITIONS,
        T_DEFINITIONS,
        (
            "            angle = p * base ** (-2 * i / width)",
            "            angle = p * base ** (-4 * i / width)",
        ),
        bug="B62",
    ),
    fault(
        "a base beside frequencies is not used, and nothing is said",
        POSITIONS,
        T_REFUSALS,
        ("if base != _DEFAULT_BASE:", "if False:"),
    ),
    # --- widths -------------------------------------------------------------------------------
    fault(
        "an odd width gets a row that is one too long",
        POSITIONS,
        T_REFUSALS,
        ("if width < 2 or width % 2:", "if width < 2:"),
        bug="B63",
    ),
    fault(
        "more frequencies than pairs are cut off in silence",
        POSITIONS,
        T_REFUSALS,
        ("if 2 * len(frequencies) > d:", "if False:"),
    ),
    # --- sines and cosines --------------------------------------------------------------------
    fault(
        "the cosine stands before the sine",
        POSITIONS,
        T_POSITIONS,
        (_PAIRS, "pairs = torch.stack([angles.cos(), angles.sin()], dim=-1)"),
    ),
    fault(
        "the shift goes the wrong way",
        POSITIONS,
        T_POSITIONS,
        ("rearrange([cos, sin, -sin, cos]", "rearrange([cos, -sin, sin, cos]"),
    ),
    fault(
        "halves turn the wrong way",
        POSITIONS,
        T_POSITIONS,
        (
            "[x_1 * cos - x_2 * sin, x_1 * sin + x_2 * cos]",
            "[x_1 * cos + x_2 * sin, x_2 * cos - x_1 * sin]",
        ),
    ),
    # --- precision ----------------------------------------------------------------------------
    fault(
        "angles are formed in fp32",
        POSITIONS,
        T_POSITIONS,
        (
            _ANGLES,
            "return positions.float()[..., None] * frequencies.to(positions.device, torch.float32)",
        ),
    ),
    fault(
        "sine and cosine are rounded to half precision before the products",
        POSITIONS,
        T_POSITIONS,
        ("    dtype = computing_dtype(dtype)\n    # rounded", "    # rounded"),
    ),
    # --- positions ----------------------------------------------------------------------------
    fault(
        "the start position of a cached step is ignored",
        POSITIONS,
        T_POSITIONS,
        (
            "    angles = _angles(positions, frequencies)\n    dtype",
            "    angles = _angles(positions - positions.min(), frequencies)\n    dtype",
        ),
        bug="B38",
    ),
    fault(
        "all rows of a padded batch share their positions",
        POSITIONS,
        T_POSITIONS,
        (_PADDED, "return torch.arange(is_token.shape[1]).expand(is_token.shape)"),
        bug="B65",
    ),
    fault(
        "rotation takes the positions of the first row for all",
        POSITIONS,
        T_POSITIONS,
        (
            "    angles = _angles(positions, frequencies)\n    dtype",
            "    positions = positions if positions.ndim < 2 else positions[:1]\n"
            "    angles = _angles(positions, frequencies)\n    dtype",
        ),
        bug="B65",
    ),
    fault(
        "padding before the first token is at position −1",
        POSITIONS,
        T_POSITIONS,
        (_PADDED, "return is_token.cumsum(dim=-1) - 1"),
        bug="B67",
    ),
    fault(
        "negative positions are accepted",
        CHECKS,
        T_REFUSALS,
        ("(lowest := int(positions.min())) < 0", "(lowest := int(positions.min())) < -(2**40)"),
        bug="B67",
    ),
    fault(
        "what is not turned is left uninitialised",
        POSITIONS,
        T_POSITIONS,
        (
            "torch.cat([turned, x[..., r:]], dim=-1)",
            "torch.cat([turned, torch.full_like(x[..., r:], torch.nan)], dim=-1)",
        ),
        bug="B67",
    ),
    fault(
        "a comma at the end of the line makes a tuple of the rotated vectors",
        POSITIONS,
        T_POSITIONS,
        (
            "return turned if r == x.shape[-1] else torch.cat([turned, x[..., r:]], dim=-1)",
            "return (turned if r == x.shape[-1] else torch.cat([turned, x[..., r:]], dim=-1),)",
        ),
        bug="B68",
    ),
    fault(
        "positions of a batch stand beside the heads",
        POSITIONS,
        T_POSITIONS,
        (_BESIDE, "return (*(None,) * n_heads_axes,)"),
    ),
    fault(
        "one vector is repeated for many positions",
        POSITIONS,
        T_REFUSALS,
        ("if not broadcasts_to(beside, x.shape[:-1]):", "if False:"),
    ),
    fault(
        "neighbours that begin at an odd place in memory cannot be turned",
        POSITIONS,
        T_POSITIONS,
        ("if pairs.storage_offset() % 2:", "if False:"),
    ),
    # --- scalings -----------------------------------------------------------------------------
    fault(
        "Llama 3 counts radians for turns",
        POSITIONS,
        T_POSITIONS,
        ("original_length * frequencies / (2 * math.pi)", "original_length * frequencies"),
    ),
    fault(
        "YaRN does not widen its ramp to whole pairs",
        POSITIONS,
        T_POSITIONS,
        ("math.floor(pair_with(beta_fast))", "pair_with(beta_fast)"),
        ("math.ceil(pair_with(beta_slow))", "pair_with(beta_slow)"),
    ),
    fault(
        "YaRN's factor does not know its μ",
        POSITIONS,
        T_POSITIONS,
        ("0.1 * mscale * math.log(factor) + 1.0", "0.1 * math.log(factor) + 1.0"),
        bug="B23",
    ),
    fault(
        "YaRN's factor is squared once too often",
        POSITIONS,
        T_POSITIONS,
        (
            "0.1 * mscale * math.log(factor) + 1.0",
            "(0.1 * mscale * math.log(factor) + 1.0) ** 2",
        ),
        bug="B23",
    ),
    # --- linear biases ------------------------------------------------------------------------
    fault(
        "the future gets a bonus",
        POSITIONS,
        T_POSITIONS,
        (
            "steps_behind(n_targets, n_sources, slopes.device).abs()",
            "steps_behind(n_targets, n_sources, slopes.device)",
        ),
    ),
    fault(
        "the first target stands at the first source",
        POSITIONS,
        T_POSITIONS,
        (
            "steps_behind(n_targets, n_sources, slopes.device).abs()",
            "(torch.arange(n_targets)[:, None] - torch.arange(n_sources)).abs()",
        ),
    ),
    fault(
        "slopes between powers of two are those that are there already",
        POSITIONS,
        T_POSITIONS,
        ("_geometric_slopes(2 * below)[::2]", "_geometric_slopes(2 * below)[1::2]"),
    ),
    fault(
        "distances are rounded to half precision before the product",
        POSITIONS,
        T_POSITIONS,
        (
            "    dtype = computing_dtype(slopes.dtype)\n",
            "    dtype = slopes.dtype\n",
        ),
    ),
    # --- judges and definitions ---------------------------------------------------------------
    fault(
        "the judge of rotations asks for the other pairing",
        EXERCISES,
        T_EXERCISES,
        (
            "definition=lambda x, positions: definitions.rotate(x, positions, pairing)",
            'definition=lambda x, positions: definitions.rotate(x, positions, "half")',
        ),
    ),
    fault(
        "the judge of padded positions knows no padding",
        EXERCISES,
        T_EXERCISES,
        (
            "return np.arange(n_sources) >= np.array(n_padding)[:, None]",
            "return np.arange(n_sources) >= 0 * np.array(n_padding)[:, None]",
        ),
    ),
    fault(
        "the definition of the rotation turns the wrong way",
        DEFINITIONS,
        T_DEFINITIONS,
        (
            "matrix[a, a], matrix[a, b] = cos(angle), -sin(angle)",
            "matrix[a, a], matrix[a, b] = cos(angle), sin(angle)",
        ),
    ),
)
