"""Faults in sampling, generation, likelihood and training."""

from fault import fault

SAMPLING = "attnlib/sampling.py"
GENERATION = "attnlib/generation.py"
LIKELIHOOD = "attnlib/likelihood.py"
TRAINING = "attnlib/training.py"
ROWS = "attnlib/token_rows.py"

T_SAMPLING = "tests/test_sampling.py"
T_GENERATION = "tests/test_generation.py"
T_LIKELIHOOD = "tests/test_likelihood.py"
T_TRAINING = "tests/test_training.py"
T_REFUSALS = "tests/refusals/test_generation_refusals.py"

FAULTS = (
    # --- sampling -------------------------------------------------------------------------
    fault(
        "sampling: top-p drops the token with which the mass is reached",
        SAMPLING,
        T_SAMPLING,
        (
            "before = torch.cat([torch.zeros_like(p[..., :1]), p.cumsum(-1)[..., :-1]], dim=-1)",
            "before = p.cumsum(-1)",
        ),
    ),
    fault(
        "sampling: a top-p of 1 is cut where the sum rounds to 1",
        SAMPLING,
        T_SAMPLING,
        ("    if mass == 1:\n        return logits\n", ""),
    ),
    fault(
        "sampling: equal logits are kept beyond k",
        SAMPLING,
        T_SAMPLING,
        (
            "kept = torch.zeros_like(logits, dtype=torch.bool).scatter(-1, order[..., :k], True)",
            "kept = logits >= logits.gather(-1, order[..., k - 1 : k])",
        ),
    ),
    fault(
        "sampling: of equal logits the highest id comes first",
        SAMPLING,
        T_SAMPLING,
        (
            "return logits.sort(dim=-1, descending=True, stable=True).indices",
            "return logits.sort(dim=-1, stable=True).indices.flip(-1)",
        ),
    ),
    fault(
        "sampling: min-p compares with the share itself",
        SAMPLING,
        T_SAMPLING,
        (
            "least = exact.amax(-1, keepdim=True) + math.log(share)",
            "least = exact.logsumexp(-1, keepdim=True) + math.log(share)",
        ),
    ),
    fault(
        "sampling: the temperature comes last",
        SAMPLING,
        T_SAMPLING,
        ("        kept = temper(kept, self.temperature)\n", ""),
        ("return kept.softmax(-1)", "return temper(kept, self.temperature).softmax(-1)"),
    ),
    fault(
        "sampling: logits are divided before the largest is taken off",
        SAMPLING,
        T_SAMPLING,
        (
            "((exact - exact.amax(-1, keepdim=True)) / temperature)",
            "(exact / temperature - (exact / temperature).amax(-1, keepdim=True))",
        ),
    ),
    fault(
        "sampling: a draw may meet a token without probability",
        SAMPLING,
        T_SAMPLING,
        ("(uniforms[..., None] * whole).contiguous(), right=True)", "uniforms[..., None] * whole)"),
    ),
    fault(
        "sampling: masses are summed as the logits come",
        SAMPLING,
        T_SAMPLING,
        ("p = logits.double().softmax(-1).gather", "p = logits.softmax(-1).double().gather"),
    ),
    fault(
        "sampling: a temperature that rounds logits to one decides which are the largest",
        SAMPLING,
        T_SAMPLING,
        ("kept = logits.double()\n", "kept = temper(logits.double(), self.temperature)\n"),
        ("        kept = temper(kept, self.temperature)\n", ""),
    ),
    fault(
        "sampling: min-p acts before top-p",
        SAMPLING,
        T_SAMPLING,
        (
            "        if self.top_p is not None:\n            kept = keep_top_p(kept, self.top_p)\n",
            "",
        ),
        (
            "            kept = keep_min_p(kept, self.min_p)\n",
            "            kept = keep_min_p(kept, self.min_p)\n"
            "        if self.top_p is not None:\n            kept = keep_top_p(kept, self.top_p)\n",
        ),
    ),
    fault(
        "sampling: a draw takes what is no uniform number",
        SAMPLING,
        T_REFUSALS,
        (
            '    if not fit.all():\n        raise ValueError(f"uniforms',
            '    if False:\n        raise ValueError(f"uniforms',
        ),
    ),
    # --- generation -----------------------------------------------------------------------
    fault(
        "generation: dropout stays on",
        GENERATION,
        T_GENERATION,
        ("with in_mode(model, False), progress", "with in_mode(model, True), progress"),
        bug="B90",
    ),
    fault(
        "generation: rows are filled up on the right",
        ROWS,
        T_GENERATION,
        ("[pad_id] * (t - len(row)) + row for row", "row + [pad_id] * (t - len(row)) for row"),
    ),
    fault(
        "generation: padding is read",
        GENERATION,
        T_GENERATION,
        ("None if is_token.all() else is_token", "None"),
    ),
    fault(
        "generation: all rows draw with one generator",
        GENERATION,
        T_GENERATION,
        (
            'return [torch.Generator("cpu").manual_seed(seed + i) for i in range(n_rows)]',
            'return [torch.Generator("cpu").manual_seed(seed)] * n_rows',
        ),
    ),
    fault(
        "generation: rows after an ended one read another's source",
        GENERATION,
        T_GENERATION,
        ('"read": self.read[numbers],', '"read": self.read[: len(rows)],'),
    ),
    fault(
        "generation: a stop token in the prompt ends the row",
        GENERATION,
        T_GENERATION,
        (
            "    running = list(range(len(rows)))\n",
            "    running = [i for i, row in enumerate(rows) if row[-1] not in ends]\n",
        ),
    ),
    fault(
        "generation: the last new token must have room, too",
        ROWS,
        T_GENERATION,
        ("t + max(n_new - 1, 0) > context:", "t + n_new > context:"),
    ),
    fault(
        "generation: after an error the model stays in evaluation mode",
        ROWS,
        T_GENERATION,
        (
            "    try:\n        model.train(training)\n        yield\n    finally:\n"
            "        for module, mode in modes:\n            module.training = mode",
            "    model.train(training)\n    yield\n"
            "    for module, mode in modes:\n        module.training = mode",
        ),
    ),
    fault(
        "generation: uniform numbers are wanted on torch's default device",
        GENERATION,
        T_GENERATION,
        (', device="cpu")\n                for i', ")\n                for i"),
    ),
    fault(
        "generation: dropout stays on in the encoder",
        GENERATION,
        T_GENERATION,
        (
            "    with in_mode(model, False), progress_bar(n_new",
            "    logits_of = _Reader(model, sources, use_cache, step)\n"
            "    with in_mode(model, False), progress_bar(n_new",
        ),
        (
            "        logits_of = _Reader(model, sources, use_cache, step)\n        for",
            "        for",
        ),
    ),
    # --- likelihood -----------------------------------------------------------------------
    fault(
        "likelihood: a row's first token after padding is predicted",
        LIKELIHOOD,
        T_LIKELIHOOD,
        ("return is_token[:, 1:] & is_token[:, :-1]", "return is_token[:, 1:]"),
    ),
    fault(
        "likelihood: perplexity divides by the places and not by the tokens",
        LIKELIHOOD,
        T_LIKELIHOOD,
        ("(-log_p.double().sum() / n_predicted)", "(-log_p.double().mean())"),
    ),
    fault(
        "likelihood: windows predict tokens twice",
        LIKELIHOOD,
        T_LIKELIHOOD,
        (
            "windows.append((start, stop, stop - done))",
            "windows.append((start, stop, stop - start - 1))",
        ),
    ),
    fault(
        "likelihood: perplexity refuses after the work",
        LIKELIHOOD,
        T_REFUSALS,
        (
            "    if n_predicted == 0:\n"
            '        raise ValueError("a mean needs at least 1 token that is predicted, got 0")\n',
            "",
        ),
    ),
    fault(
        "likelihood: a source without a token is scored",
        LIKELIHOOD,
        T_REFUSALS,
        ('rows_of("source", source, is_source, model.sizes.vocabulary)', "pass"),
    ),
    fault(
        "likelihood: logits in half precision are normed in it",
        LIKELIHOOD,
        T_LIKELIHOOD,
        ("logits_btv = logits_btv.to(", "logits_btv = logits_btv.log_softmax(-1).to("),
    ),
    fault(
        "likelihood: a perplexity beyond the largest number is an error",
        LIKELIHOOD,
        T_LIKELIHOOD,
        (
            "return (-log_p.double().sum() / n_predicted).exp().item()",
            "return math.exp(-log_p.double().sum().item() / n_predicted)",
        ),
    ),
    # --- training -------------------------------------------------------------------------
    fault(
        "training: the target is the token that is read",
        TRAINING,
        T_TRAINING,
        ("return tokens[:, :-1], tokens[:, 1:]", "return tokens[:, :-1], tokens[:, :-1]"),
    ),
    fault(
        "training: a batch of padding has the loss NaN",
        TRAINING,
        T_TRAINING,
        ("    if targets.numel() == 0:\n", "    if False:\n"),
        ("targets.min().item(), targets.max().item()", "0, 0"),
        bug="B93",
    ),
    fault(
        "training: smoothing makes the loss infinite without a word",
        TRAINING,
        T_TRAINING,
        ("if smoothing and (logits_nv == -math.inf).any():", "if False:"),
        bug="B93",
    ),
    fault(
        "training: what does not count is multiplied by 0",
        TRAINING,
        T_TRAINING,
        (
            "        logits, targets = logits[is_target], targets[is_target]\n",
            "        logits, targets = logits * is_target[..., None], targets * is_target\n",
        ),
        bug="B93",
    ),
    fault(
        "training: vectors decay, too",
        TRAINING,
        T_TRAINING,
        ('{"params": vectors, "weight_decay": 0.0}', '{"params": vectors, "weight_decay": decay}'),
    ),
    fault(
        "training: the gradient of each parameter is clipped by itself",
        TRAINING,
        T_TRAINING,
        (
            "norm = nn.utils.clip_grad_norm_(parameters, math.inf if clip is None else clip)",
            "norm = nn.utils.get_total_norm([p.grad for p in parameters])\n"
            "            for p in parameters:\n"
            "                nn.utils.clip_grad_norm_(p, math.inf if clip is None else clip)",
        ),
    ),
    fault(
        "training: a step is made before the gradient is seen to be finite",
        TRAINING,
        T_TRAINING,
        ('            _require_finite("the gradient\'s length", norm.item(), step)\n', ""),
    ),
    fault(
        "training: the floor of the rate is not passed on",
        TRAINING,
        T_TRAINING,
        (", n_steps=n_steps, floor=floor)", ", n_steps=n_steps)"),
    ),
    fault(
        "training: the means of AdamW are torch's own",
        TRAINING,
        T_TRAINING,
        ("lr=0.0, betas=betas)", "lr=0.0)"),
    ),
    fault(
        "training: the batches are begun before torch's chance is that of the seed",
        TRAINING,
        T_TRAINING,
        ("        supply = iter(batches)  #", "        #"),
        (
            "    losses, norms = [], []\n",
            "    losses, norms = [], []\n    supply = iter(batches)\n",
        ),
    ),
    fault(
        "training: dropout stays off",
        TRAINING,
        T_TRAINING,
        ("with in_mode(model, True):", "with in_mode(model, False):"),
    ),
)
