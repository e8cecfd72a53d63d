"""Faults in experts and in what compares models: who is chosen, what it weighs, what is counted."""

from fault import fault

EXPERTS = "attnlib/layers/experts.py"
BLOCK = "attnlib/layers/block.py"
FEED_FORWARD = "attnlib/layers/feed_forward.py"
STACK = "attnlib/models/stack.py"
STEP = "attnlib/fast_decoding.py"
SIZES = "attnlib/sizes/model.py"
COMPARE = "attnlib/cost/compare.py"

T_EXPERTS = "tests/test_experts.py"
T_COMPARE = "tests/test_cost_compare.py"
T_REFUSALS = "tests/refusals/test_experts_refusals.py"  # run without the shape hook

_CHOICE = "numbers.gather(-1, _largest(scores.gather(-1, numbers), n_chosen))"


def experts(name: str, *edits: tuple[str, str], file: str = EXPERTS, test: str = T_EXPERTS):
    return fault(f"experts: {name}", file, test, *edits)


FAULTS = (
    # --- what they are given ------------------------------------------------------------------
    experts(
        "the choice does not look at what it is given",
        (
            '        check_states("x", x, None, self.width, self.router.weight)\n        sizes,',
            "        sizes,",
        ),
        test=T_REFUSALS,
    ),
    experts(
        "a feed-forward network leaves another dtype to torch",
        ('        check_states("x", x, None, self.width, self.widen.weight)\n', ""),
        file=FEED_FORWARD,
        test="tests/refusals/test_layers_refusals.py",
    ),
    # --- the choice ---------------------------------------------------------------------------
    experts(
        "all devices may be used",
        (
            "_largest(by_device.amax(-1), n_devices_at_most)",
            "_largest(by_device.amax(-1), n_devices)",
        ),
    ),
    experts(
        "a device is as good as its experts together", ("by_device.amax(-1)", "by_device.sum(-1)")
    ),
    experts(
        "neighbours stand on different devices",
        (
            '"... (device expert) -> ... device expert"',
            '"... (expert device) -> ... device expert"',
        ),
    ),
    experts(
        "an expert is called by its place among those of its devices",
        (_CHOICE, "_largest(scores.gather(-1, numbers), n_chosen)"),
    ),
    experts(
        "devices stand in the order of their scores, and equal experts with them",
        (".sort(-1).values", ""),
    ),
    experts(
        "of equal scores any may be taken",
        (
            "x.argsort(dim=-1, descending=True, stable=True)[..., :count]",
            "x.topk(count, dim=-1).indices",
        ),
    ),
    experts("the smallest scores are taken", ("descending=True", "descending=False")),
    experts(
        "experts are chosen by scores that are rounded",
        (
            "            logits,\n            sizes.n_chosen,",
            "            scores,\n            sizes.n_chosen,",
        ),
    ),
    experts(
        "the layer forgets the devices",
        ("            n_devices_at_most=sizes.n_devices_at_most,\n", ""),
    ),
    # --- gates --------------------------------------------------------------------------------
    experts(
        "the gates are divided by their sum",
        (
            "sizes.gate_factor * scores.gather(-1, chosen))",
            "sizes.gate_factor * softmax(logits.gather(-1, chosen)))",
        ),
    ),
    experts("the factor is left out", ("sizes.gate_factor * scores.gather", "scores.gather")),
    experts(
        "scores are formed in the dtype of the tokens",
        ("computing_dtype(x.dtype)", "x.dtype"),
    ),
    experts(
        "autocast forms the scores",
        ("with without_autocast(x.device):", "with torch.autocast(x.device.type):"),
    ),
    experts(
        "the first gate of a token weighs all of its experts",
        ("gates[row, place, None]", "gates[row, 0, None]"),
    ),
    experts(
        "shared experts are left out",
        ("(network(rows) for network in self.shared)", "(0 * rows for _ in self.shared)"),
    ),
    experts(
        "an expert has room for eight tokens",
        (
            "row, place = torch.where(chosen == i)\n",
            "row, place = (x[:8] for x in torch.where(chosen == i))\n",
        ),
    ),
    # --- load and balance ---------------------------------------------------------------------
    experts(
        "the load is not divided by how many experts a token uses",
        (
            "counts.to(dtype) * n_routed / chosen.numel()",
            "counts.to(dtype) * n_routed / len(chosen)",
        ),
    ),
    experts(
        "the balance has no derivative",
        ("mean = scores.to(dtype)", "mean = scores.detach().to(dtype)"),
    ),
    experts("alpha is not used", ("return factor * (_load(", "return (_load(")),
    experts(
        "scores and choice may be of different tokens",
        ("if scores.shape[:-1] != chosen.shape[:-1]:", "if False:"),
        test=T_REFUSALS,
    ),
    experts(
        "a number that is no expert is counted",
        ("if not 0 <= least <= most < n_routed:", "if not 0 <= least <= most:"),
        test=T_REFUSALS,
    ),
    # --- sizes and models ---------------------------------------------------------------------
    experts(
        "more experts than stand on the devices may be asked for",
        ("if n_chosen > n_there:", "if False:"),
        file=SIZES,
        test=T_REFUSALS,
    ),
    experts(
        "the first layer has experts too",
        ("has_experts=i >= first_with_experts", "has_experts=i >= 0"),
        file=STACK,
    ),
    experts(
        "a layer with experts has an ordinary network",
        ("            if has_experts\n", "            if False\n"),
        file=BLOCK,
    ),
    experts(
        "experts begin as large as what is not added",
        ('name.endswith(("attention.output", ".narrow"))', 'name.endswith("attention.output")'),
        file=STACK,
    ),
    experts(
        "a prepared step takes a model with experts",
        ("if model.sizes.n_expert_layers:", "if False:"),
        file=STEP,
        test=T_REFUSALS,
    ),
    experts(
        "gates of another kind are taken for softmax",
        ('if sizes.gate != "softmax":', "if False:"),
        test=T_REFUSALS,
    ),
    # --- models beside each other ---------------------------------------------------------------
    fault(
        "compare: the first crossing of two caches counts",
        COMPARE,
        T_COMPARE,
        ("for end in reversed(ends)", "for end in ends"),
    ),
    fault(
        "compare: a break-even is rounded down",
        COMPARE,
        T_COMPARE,
        ("more(start) // -slope + 1", "more(start) // -slope"),
    ),
    fault(
        "compare: caches that grow alike cross",
        COMPARE,
        T_COMPARE,
        ("if slope > 0 or (slope == 0 and more(ends[-1]) >= 0):", "if slope > 0:"),
    ),
    fault(
        "compare: windows of the second model are forgotten",
        COMPARE,
        T_COMPARE,
        ("for sizes in (smaller, larger)", "for sizes in (smaller,)"),
    ),
    fault(
        "compare: later tokens add what the first ones do",
        COMPARE,
        T_COMPARE,
        (
            "kv_cache_bytes(sizes, full + 1) - kv_cache_bytes(sizes, full)",
            "kv_cache_bytes(sizes, 1)",
        ),
    ),
    fault(
        "compare: the rotary key of a latent has no room in table 3",
        COMPARE,
        T_COMPARE,
        ('"width of a query and a key": attention.head_dim', '"width of a query and a key": 128'),
    ),
    fault(
        "compare: the baseline has the width of queries with rotation",
        COMPARE,
        T_COMPARE,
        ("head_dim=attention.nope_dim", "head_dim=attention.head_dim"),
    ),
    fault(
        "compare: merging is held against one factor of two",
        COMPARE,
        T_COMPARE,
        ("u * c / (n * (u + c))", "u * c / (n * u)"),
    ),
    fault(
        "compare: table 2 multiplies the output once for all heads",
        COMPARE,
        T_COMPARE,
        (
            "    matrices=m * c + h * m * c + h * c * m,\n",
            "    matrices=m * c + h * m * c + c * m,\n",
        ),
    ),
)
