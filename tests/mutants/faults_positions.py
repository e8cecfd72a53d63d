"""Faults in sinusoids, rotations, their scalings, linear biases and padded positions.

B61 to B68 are about positions. B38, a table of rotations sliced without the start position of a
cached step, is a fault of whoever calls `rotate`; here it stands as a rotation that ignores the
positions which it is given.
"""

from fault import fault

POSITIONS = "attnlib/positions.py"
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
_BESIDE = "return (*(slice(None),) * (positions.ndim - 1), *(None,) * n_heads_axes)"

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
        "halves are turned whatever the pairing",
        POSITIONS,
        T_POSITIONS,
        (_TURN, "turn = _turn_halves"),
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
        ('if pairing not in ("half", "interleaved"):', "if False:"),
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
        "the 2 of the exponent is missing",
        POSITIONS,
        T_POSITIONS,
        (_EXPONENTS, "exponents = torch.arange(width // 2, dtype=torch.float64) / width"),
        bug="B62",
    ),
    fault(
        "the exponent runs to −1",
        POSITIONS,
        T_POSITIONS,
        (_EXPONENTS, _EXPONENTS.replace("/ width", "/ max(width - 2, 1)")),
        bug="B62",
    ),
    fault(
        "frequencies rise with the pair",
        POSITIONS,
        T_POSITIONS,
        ("return float(base) ** -exponents", "return float(base) ** exponents"),
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
        "the base is not used",
        POSITIONS,
        T_POSITIONS,
        ("return float(base) ** -exponents", "return _DEFAULT_BASE**-exponents"),
    ),
    fault(
        "given frequencies are not used",
        POSITIONS,
        T_POSITIONS,
        (
            "    return frequencies\n\n\ndef _require_positions",
            "    return rotary_frequencies(d)\n\n\ndef _require_positions",
        ),
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
        "a width without pairs is accepted",
        POSITIONS,
        T_REFUSALS,
        ("if width < 2 or width % 2:", "if width % 2:"),
        bug="B63",
    ),
    fault(
        "more frequencies than pairs are cut off in silence",
        POSITIONS,
        T_REFUSALS,
        ("if 2 * len(frequencies) > d:", "if False:"),
    ),
    fault(
        "partial rotation drops what does not turn",
        POSITIONS,
        T_POSITIONS,
        ("return turned if r == x.shape[-1] else", "return turned if True else"),
    ),
    fault(
        "partial rotation turns the last coordinates",
        POSITIONS,
        T_POSITIONS,
        ("turn(x[..., :r].to(dtype)", "turn(x[..., -r:].to(dtype)"),
    ),
    # --- sines and cosines --------------------------------------------------------------------
    fault(
        "the cosine stands before the sine",
        POSITIONS,
        T_POSITIONS,
        (_PAIRS, "pairs = torch.stack([angles.cos(), angles.sin()], dim=-1)"),
    ),
    fault(
        "all sines stand before all cosines",
        POSITIONS,
        T_POSITIONS,
        (_PAIRS, "pairs = torch.stack([angles.sin(), angles.cos()], dim=-2)"),
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
    fault(
        "neighbours turn the wrong way",
        POSITIONS,
        T_POSITIONS,
        ("torch.complex(cos, sin)", "torch.complex(cos, -sin)"),
    ),
    fault(
        "sine and cosine have changed places",
        POSITIONS,
        T_POSITIONS,
        (
            "angles.cos().to(dtype), angles.sin().to(dtype))",
            "angles.sin().to(dtype), angles.cos().to(dtype))",
        ),
    ),
    fault(
        "the second of a pair is not turned",
        POSITIONS,
        T_POSITIONS,
        ("x_1 * sin + x_2 * cos], dim=-1)", "x_2], dim=-1)"),
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
        ("dtype = computing_dtype(x.dtype)\n    turn", "dtype = x.dtype\n    turn"),
    ),
    fault(
        "the result is left in fp32",
        POSITIONS,
        T_POSITIONS,
        ("    turned = turned.to(x.dtype)\n", ""),
    ),
    fault(
        "half precision is all that sinusoids have before they are rounded",
        POSITIONS,
        T_POSITIONS,
        (_PAIRS, "pairs = torch.stack([angles.half().sin(), angles.half().cos()], dim=-1)"),
    ),
    # --- positions ----------------------------------------------------------------------------
    fault(
        "the start position of a cached step is ignored",
        POSITIONS,
        T_POSITIONS,
        (
            "angles = _angles(positions, frequencies)[",
            "angles = _angles(positions - positions.min(), frequencies)[",
        ),
        bug="B38",
    ),
    fault(
        "positions are counted anew from 0",
        POSITIONS,
        T_POSITIONS,
        (
            "    angles = _angles(positions, frequencies)[",
            "    positions = torch.arange(positions.numel()).reshape(positions.shape)\n"
            "    angles = _angles(positions, frequencies)[",
        ),
        bug="B38",
    ),
    fault(
        "positions begin at 1",
        POSITIONS,
        T_POSITIONS,
        (_ANGLES, _ANGLES.replace("positions.double()", "(positions + 1).double()")),
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
            "    angles = _angles(positions, frequencies)[",
            "    positions = positions if positions.ndim < 2 else positions[:1]\n"
            "    angles = _angles(positions, frequencies)[",
        ),
        bug="B65",
    ),
    fault(
        "tokens of a padded row are counted from 1",
        POSITIONS,
        T_POSITIONS,
        (_PADDED, "return is_token.cumsum(dim=-1)"),
        bug="B65",
    ),
    fault(
        "the padding is counted instead of the tokens",
        POSITIONS,
        T_POSITIONS,
        (_PADDED, "return ((~is_token).cumsum(dim=-1) - 1).clamp(min=0)"),
        bug="B65",
    ),
    fault(
        "tokens are counted down the batch",
        POSITIONS,
        T_POSITIONS,
        (_PADDED, "return (is_token.cumsum(dim=0) - 1).clamp(min=0)"),
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
        POSITIONS,
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
        "positions that are booleans are accepted",
        POSITIONS,
        T_REFUSALS,
        ("_INTEGERS = (torch.int8,", "_INTEGERS = (torch.bool, torch.int8,"),
    ),
    fault(
        "a comma at the end of the line makes a tuple of the encoding",
        POSITIONS,
        T_POSITIONS,
        ("return pairs.flatten(-2).to(dtype)", "return (pairs.flatten(-2).to(dtype),)"),
        bug="B68",
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
        "position interpolation multiplies",
        POSITIONS,
        T_POSITIONS,
        ("    return frequencies / factor\n", "    return frequencies * factor\n"),
    ),
    fault(
        "Llama 3 slows down the fast pairs",
        POSITIONS,
        T_POSITIONS,
        (
            "return kept * frequencies + (1 - kept) * frequencies / factor",
            "return (1 - kept) * frequencies + kept * frequencies / factor",
        ),
    ),
    fault(
        "Llama 3 counts radians for turns",
        POSITIONS,
        T_POSITIONS,
        ("original_length * frequencies / (2 * math.pi)", "original_length * frequencies"),
    ),
    fault(
        "Llama 3 does not blend",
        POSITIONS,
        T_POSITIONS,
        ("(high - low)).clamp(0, 1)", "(high - low)).clamp(0, 1).round()"),
    ),
    fault(
        "YaRN slows down the fast pairs",
        POSITIONS,
        T_POSITIONS,
        (
            "return (1 - slowed) * frequencies + slowed * frequencies / factor",
            "return slowed * frequencies + (1 - slowed) * frequencies / factor",
        ),
    ),
    fault(
        "YaRN does not widen its ramp to whole pairs",
        POSITIONS,
        T_POSITIONS,
        ("math.floor(pair_with(beta_fast))", "pair_with(beta_fast)"),
        ("math.ceil(pair_with(beta_slow))", "pair_with(beta_slow)"),
    ),
    fault(
        "YaRN finds the pair from twice the width",
        POSITIONS,
        T_POSITIONS,
        ("return width / 2 * math.log(", "return width * math.log("),
    ),
    fault(
        "YaRN's ramp ends with the last pair",
        POSITIONS,
        T_POSITIONS,
        (
            "math.ceil(pair_with(beta_slow)), width - 1)",
            "math.ceil(pair_with(beta_slow)), width // 4)",
        ),
    ),
    fault(
        "YaRN's factor does not know its μ",
        POSITIONS,
        T_POSITIONS,
        ("0.1 * float(mscale) * math.log(factor) + 1.0", "0.1 * math.log(factor) + 1.0"),
        bug="B23",
    ),
    fault(
        "YaRN's factor is squared once too often",
        POSITIONS,
        T_POSITIONS,
        (
            "0.1 * float(mscale) * math.log(factor) + 1.0",
            "(0.1 * float(mscale) * math.log(factor) + 1.0) ** 2",
        ),
        bug="B23",
    ),
    fault(
        "YaRN's factor shrinks shorter texts",
        POSITIONS,
        T_POSITIONS,
        ("return 1.0 if factor <= 1 else", "return 1.0 if factor == 1 else"),
    ),
    # --- linear biases ------------------------------------------------------------------------
    fault(
        "distance is a bonus",
        POSITIONS,
        T_POSITIONS,
        ("(-distance_ts).to(dtype)", "distance_ts.to(dtype)"),
    ),
    fault(
        "the future gets a bonus",
        POSITIONS,
        T_POSITIONS,
        (
            "_steps_behind(n_targets, n_sources, slopes.device).abs()",
            "_steps_behind(n_targets, n_sources, slopes.device)",
        ),
    ),
    fault(
        "the first target stands at the first source",
        POSITIONS,
        T_POSITIONS,
        (
            "_steps_behind(n_targets, n_sources, slopes.device).abs()",
            "(torch.arange(n_targets)[:, None] - torch.arange(n_sources)).abs()",
        ),
    ),
    fault(
        "slopes fall half as fast",
        POSITIONS,
        T_POSITIONS,
        ("return 2.0 ** (-8.0 *", "return 2.0 ** (-4.0 *"),
    ),
    fault(
        "slopes begin at 1",
        POSITIONS,
        T_POSITIONS,
        (
            "torch.arange(1, n + 1, dtype=torch.float64) / n)",
            "torch.arange(n, dtype=torch.float64) / n)",
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
        "the judge of biases knows as many targets as sources only",
        EXERCISES,
        T_EXERCISES,
        (
            '        _bias_case("a step with a cache", 2, 5, 0.25),\n'
            '        _bias_case("one target", 1, 3, 2.0),\n',
            "",
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
    fault(
        "the definition of the shift is the usual rotation",
        DEFINITIONS,
        T_DEFINITIONS,
        (
            "2 * i : 2 * i + 2] = cos(angle), sin(angle)",
            "2 * i : 2 * i + 2] = cos(angle), -sin(angle)",
        ),
        (
            "2 * i : 2 * i + 2] = -sin(angle), cos(angle)",
            "2 * i : 2 * i + 2] = sin(angle), cos(angle)",
        ),
    ),
)
