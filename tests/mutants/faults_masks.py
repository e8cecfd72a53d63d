"""Faults in masks of documents, of blocks and of several layers, their definitions and judges."""

from fault import fault

MASKS = "attnlib/masks.py"
DEFINITIONS = "attnlib/definitions/of_masks.py"
EXERCISES = "attnlib/exercises/masking.py"
JUDGE = "attnlib/exercises/judge.py"

T_MASKS = "tests/test_masks.py"
T_DEFINITIONS = "tests/test_definitions.py"
T_EXERCISES = "tests/test_exercises_of_masks.py"
T_SCORES = "tests/test_exercises_of_scores.py"
T_REFUSALS = "tests/refusals/test_attention_refusals.py"  # run without the shape hook

_SAME = "return document[:, None, :, None] == document[:, None, None, :]"
_BLOCKS = "block_t = _positions(n_targets, n_sources, device) // block"

FAULTS = (
    # --- documents ----------------------------------------------------------------------------
    fault("documents read each other", MASKS, T_MASKS, (_SAME, _SAME.replace("==", "!="))),
    fault("documents of lower number are read", MASKS, T_MASKS, (_SAME, _SAME.replace("==", ">="))),
    fault(
        "document 0 is taken for padding",
        MASKS,
        T_MASKS,
        (_SAME, f"{_SAME[:7]}({_SAME[7:]}) & (document != 0)[:, None, None, :]"),
        bug="B13",
    ),
    fault(
        "numbers of documents are compared as floats",
        MASKS,
        T_MASKS,
        (_SAME, f"document = document.double()\n    {_SAME}"),
    ),
    fault(
        "true and false are taken for numbers of documents",
        MASKS,
        T_REFUSALS,
        ("not in (*SIGNED, torch.uint8):", "not in (*SIGNED, torch.uint8, torch.bool):"),
    ),
    fault(
        "documents without a batch axis are not refused",
        MASKS,
        T_REFUSALS,
        ('    check_axes("document", document, "b s")\n', ""),
    ),
    # --- blocks -------------------------------------------------------------------------------
    fault(
        "blocks of targets start top left",
        MASKS,
        T_MASKS,
        (_BLOCKS, "block_t = torch.arange(n_targets, device=device) // block"),
        bug="B06",
    ),
    fault(
        "targets before the first source read the first block",
        MASKS,
        T_MASKS,
        (
            _BLOCKS,
            "block_t = _positions(n_targets, n_sources, device)\n"
            '    block_t = torch.div(block_t, block, rounding_mode="trunc")',
        ),
    ),
    fault(
        "a block beyond the range of torch is not made shorter",
        MASKS,
        T_MASKS,
        ("block = min(block, max(n_sources, 1))", "block = block"),
    ),
    fault(
        "an empty block is taken",
        MASKS,
        T_REFUSALS,
        ('require.at_least("block", block, 1)', 'require.at_least("block", block, 0)'),
    ),
    # --- composition --------------------------------------------------------------------------
    fault(
        "the earlier layer comes later",
        MASKS,
        T_MASKS,
        ("later.float(), earlier.float())", "earlier.float(), later.float())"),
    ),
    fault(
        "a source that is reached in two ways is not reached",
        MASKS,
        T_MASKS,
        ("return n_ways > 0", "return n_ways == 1"),
    ),
    fault(
        "only what every position in between reads is reached",
        MASKS,
        T_MASKS,
        ("return n_ways > 0", "return n_ways >= later.shape[-1]"),
    ),
    fault(
        "masks of numbers are composed",
        MASKS,
        T_REFUSALS,
        ('        check_boolean(name, mask, "may be read")\n', ""),
    ),
    fault(
        "masks on different devices are composed",
        MASKS,
        T_REFUSALS,
        ("    if later.device != earlier.device:", "    if False:"),
    ),
    fault(
        "masks that do not meet are composed",
        MASKS,
        T_REFUSALS,
        ("if later.shape[-1] != earlier.shape[-2]:", "if False:"),
    ),
    fault(
        "the axes before two masks need not broadcast",
        MASKS,
        T_REFUSALS,
        ("if any(a != b and 1 not in (a, b) for a, b in sizes):", "if False:"),
    ),
    fault(
        "the axes before two masks are matched from the left",
        MASKS,
        T_REFUSALS,
        ("*(reversed(lead) for lead in leads)", "*leads"),
    ),
    # --- definitions --------------------------------------------------------------------------
    fault(
        "the definition of documents reads those of lower number",
        DEFINITIONS,
        T_DEFINITIONS,
        ("= document[t] == document[s]", "= document[t] >= document[s]"),
    ),
    fault(
        "the definition of blocks starts top left",
        DEFINITIONS,
        T_DEFINITIONS,
        ("position = t + n_sources - n_targets", "position = t"),
        bug="B06",
    ),
    fault(
        "the definition of composition asks for every position in between",
        DEFINITIONS,
        T_DEFINITIONS,
        ("= any(later[t, r]", "= all(later[t, r]"),
    ),
    fault(
        "the definition of what layers reach counts one layer too many",
        DEFINITIONS,
        T_DEFINITIONS,
        ("np.eye(n, dtype=bool)", "causal_mask(n, n, window)"),
    ),
    fault(
        "the definition of weights under a mask reads what it may not",
        DEFINITIONS,
        T_DEFINITIONS,
        (
            "readable_sources(t, len(scores[t]), may_attend, None)",
            "list(range(len(scores[t])))",
        ),
    ),
    # --- judges -------------------------------------------------------------------------------
    fault(
        "a judge takes the numbers 0 and 1 for true and false",
        JUDGE,
        T_EXERCISES,
        ("if _is_truth(wanted[0]) and not", "if False and not"),
    ),
    fault(
        "a judge leaves the numbers of a mistake in braces",
        JUDGE,
        T_EXERCISES,
        ("return says.format(**self.numbers(case.arguments, got[0], right[0]))", "return says"),
    ),
    fault(
        "a judge tells the numbers of a case that is right",
        JUDGE,
        T_EXERCISES,
        ("if not isinstance(got, Exception) and not _agree(got, right)", "if got is not None"),
    ),
    fault(
        "a judge names the pairs of a mask the wrong way round",
        EXERCISES,
        T_EXERCISES,
        ("may = got == 1", "may = got == 0"),
    ),
    fault(
        "the judge of documents has none that returns",
        EXERCISES,
        T_EXERCISES,
        ('"a document that returns", 0, 0, 1, 1, 0', '"a document that returns", 0, 0, 1, 1, 2'),
    ),
    fault(
        "the judge of causal masks has no case with more targets than sources",
        EXERCISES,
        T_EXERCISES,
        (
            '_causal_case("more targets than sources", 5, 3)',
            '_causal_case("more targets than sources", 5, 7)',
        ),
    ),
    fault(
        "the judge of weights has no target with nothing to read",
        EXERCISES,
        T_EXERCISES,
        (
            "[[1, 0, 1, 0], [0, 0, 0, 0], [1, 1, 1, 0]]",
            "[[1, 0, 1, 0], [0, 1, 0, 0], [1, 1, 1, 0]]",
        ),
        bug="B02",
    ),
    fault(
        "the judge of weights has no mask beside scores far below zero",
        EXERCISES,
        T_EXERCISES,
        ("            [[1, 1, 0], [1, 1, 0]],\n", "            [[1, 1, 0], [1, 1, 1]],\n"),
    ),
    fault(
        "the judge names no case where a mistake fits no further",
        JUDGE,
        T_SCORES,
        ('(first + 1, f"{self.name}, {case.about}"),', "(first + 1, self.name),"),
    ),
    fault(
        "the judge of what layers reach knows one layer only",
        EXERCISES,
        T_EXERCISES,
        ("((1, 4), (2, 5), (4, 3), (3, 1), (5, 2))", "((1, 4), (1, 5), (1, 3))"),
    ),
)
