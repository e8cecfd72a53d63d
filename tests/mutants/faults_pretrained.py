"""Faults in what reads, converts, fetches and saves weights."""

from fault import Fault, fault

FOLDER = "attnlib/pretrained"
LOADER, BUILD = f"{FOLDER}/__init__.py", f"{FOLDER}/build.py"
FILES, TENSORS, NAMES = "attnlib/files.py", f"{FOLDER}/tensors.py", f"{FOLDER}/names.py"
GGUF, HUB, SOURCES = f"{FOLDER}/gguf_files.py", f"{FOLDER}/hub.py", f"{FOLDER}/sources.py"
CHECKPOINTS, VOCABULARY = f"{FOLDER}/checkpoints.py", f"{FOLDER}/vocabulary.py"
T_READING, T_GGUF = "tests/test_pretrained.py", "tests/test_pretrained_gguf.py"
T_HUB, T_CHECKPOINTS = "tests/test_pretrained_hub.py", "tests/test_pretrained_checkpoints.py"
T_REFUSALS = "tests/refusals/test_pretrained_refusals.py"

FAULTS: tuple[Fault, ...] = (
    # --- reading ------------------------------------------------------------------------------
    fault(
        "queries and keys change places on reading",
        NAMES,
        T_READING,
        ('"attention.self.query"', '"attention.self.key"'),
        ('("attention.key", "attention.self.key")', '("attention.key", "attention.self.query")'),
    ),
    fault(
        "the two norms of a layer change places on reading",
        NAMES,
        T_READING,
        (
            '("attention_norm", "attention.output.LayerNorm")',
            '("attention_norm", "output.LayerNorm")',
        ),
        (
            '("feed_forward_norm", "output.LayerNorm")',
            '("feed_forward_norm", "attention.output.LayerNorm")',
        ),
    ),
    fault(
        "the gate of a Llama and what it gates change places",
        NAMES,
        T_GGUF,
        ('"mlp.gate_proj", "ffn_gate"', '"mlp.up_proj", "ffn_up"'),
        (
            '("feed_forward.widen", "mlp.up_proj", "ffn_up")',
            '("feed_forward.widen", "mlp.gate_proj", "ffn_gate")',
        ),
    ),
    fault(
        "the coordinates of a Llama turn in neighbouring pairs",
        BUILD,
        T_CHECKPOINTS,
        ('{"pairing": "half"}', '{"pairing": "interleaved"}'),
        bug="B61",
    ),
    fault(
        "the hash of a file is not looked at",
        FILES,
        T_READING,
        ("    if found != wanted:\n", "    if False:\n"),
    ),
    fault(
        "the hash of the vocabulary is not handed on",
        LOADER,
        T_READING,
        ("sha256=hashes.get(VOCABULARY)", "sha256=None"),
    ),
    fault(
        "files are verified even where that is not wanted",
        LOADER,
        T_READING,
        ("hashes = source.sha256 if verify else {}", "hashes = source.sha256"),
    ),
    fault(
        "tensors that are not expected pass",
        TENSORS,
        T_READING,
        ("    if missing or more:\n", "    if missing:\n"),
    ),
    fault(
        "tensors of any kind of numbers pass",
        TENSORS,
        T_READING,
        ("if tensor.shape != shape or tensor.dtype not in kinds:", "if tensor.shape != shape:"),
    ),
    fault(
        "numbers of a kind that torch does not have end in a KeyError",
        TENSORS,
        T_READING,
        ("_REFUSED_BY_TORCH = (KeyError, ", "_REFUSED_BY_TORCH = ("),
    ),
    fault(
        "a shape that torch cannot hold ends in a RuntimeError",
        TENSORS,
        T_READING,
        ("_REFUSED_BY_TORCH = (KeyError, RuntimeError, ", "_REFUSED_BY_TORCH = (KeyError, "),
    ),
    fault(
        "what is left of a removed package counts as installed",
        SOURCES,
        T_READING,
        (
            "            if all((folder / name).is_file() for name in names):\n",
            "            if True:\n",
        ),
    ),
    fault(
        "the package is imported to find it",
        SOURCES,
        T_READING,
        (
            "        spec = find_spec(self.package)\n",
            "        spec = find_spec(self.package)\n        spec and __import__(self.package)\n",
        ),
    ),
    fault(
        "reading a model draws random numbers",
        BUILD,
        T_READING,
        ('with torch.device("meta"):', 'with torch.device("cpu"):'),
    ),
    fault(
        "a model is given back in training mode",
        BUILD,
        T_READING,
        ("return model.eval()", "return model.train()"),
        bug="B90",
    ),
    fault(
        "any separator of lines ends a piece",
        VOCABULARY,
        T_READING,
        ('.removesuffix("\\n").split("\\n")', ".splitlines()"),
    ),
    fault(
        "a piece may stand twice in a vocabulary",
        VOCABULARY,
        T_READING,
        ("    if len(vocabulary) != len(pieces):\n", "    if False:\n"),
    ),
    fault(
        "a vocabulary with the ends of lines of Windows is read with them",
        VOCABULARY,
        T_READING,
        ('    if "\\r\\n" in text:\n', "    if False:\n"),
    ),
    fault(
        "a pickle is only refused by what is in it",
        LOADER,
        T_REFUSALS,
        ("if path.suffix.lower() in _PICKLES and not path.is_dir():", "if False:"),
    ),
    fault(
        "a download that is asked for beside a path is forgotten",
        LOADER,
        T_REFUSALS,
        ("        if download:\n", "        if False:\n"),
    ),
    # --- batches ------------------------------------------------------------------------------
    fault(
        "all rows are filled up on the right",
        LOADER,
        T_CHECKPOINTS,
        ("pad_left if isinstance(self.model, LanguageModel) else pad_right", "pad_right"),
        bug="B65",
    ),
    fault(
        "all rows are filled up on the left",
        LOADER,
        T_READING,
        ("pad_left if isinstance(self.model, LanguageModel) else pad_right", "pad_left"),
    ),
    fault(
        "a translator's rows are filled up with a word",
        LOADER,
        T_CHECKPOINTS,
        ('getattr(self.tokenizer, "pad", 0)', "5"),
    ),
    # --- GGUF ---------------------------------------------------------------------------------
    fault(
        "rows of queries and keys stay in the order of llama.cpp",
        GGUF,
        T_GGUF,
        ('"(h pair side) m -> (h side pair) m"', '"(h pair side) m -> (h pair side) m"'),
        bug="B61",
    ),
    fault(
        "the rows of keys are taken for those of as many heads as queries have",
        GGUF,
        T_GGUF,
        ('"k_proj": sizes.attention.n_kv_heads', '"k_proj": sizes.attention.n_query_heads'),
        bug="B36",
    ),
    fault(
        "a conversion is kept in half precision",
        GGUF,
        T_GGUF,
        ("dtype=torch.float32), sizes)", "dtype=torch.float16).float(), sizes)"),
    ),
    fault(
        "a damaged conversion is used",
        GGUF,
        T_GGUF,
        ('    if notes.get("tensors_sha256") != digest(tensors):\n', "    if False:\n"),
    ),
    fault(
        "the conversion of another file is used",
        GGUF,
        T_GGUF,
        ("!= (_FORMAT, sha256):", "== (None, None):"),
    ),
    fault(
        "the hash of a GGUF is not looked at",
        GGUF,
        T_GGUF,
        ("    if sha256 is not None:\n", "    if False:\n"),
    ),
    fault(
        "a conversion is made every time",
        GGUF,
        T_GGUF,
        ("            return conversion_of(found, place)\n", "            raise ValueError\n"),
    ),
    fault(
        "where the folder is read-only the conversion is not kept",
        GGUF,
        T_GGUF,
        ("            reasons.append(str(error))\n", "            return\n"),
    ),
    fault(
        "a file that breaks off is left behind",
        FILES,
        T_GGUF,
        ("        beside.unlink(missing_ok=True)\n", "        pass\n"),
    ),
    fault(
        "only the user who converted can read the conversion",
        GGUF,
        T_GGUF,
        ("                shutil.copymode(path, beside)", "                beside.touch()"),
    ),
    fault(
        "what holds another model's shapes is converted and kept",
        GGUF,
        T_GGUF,
        ("    of_llama(path, tensors, sizes)  #", "    #"),
    ),
    fault(
        "a folder in the place of a conversion stops the loading",
        GGUF,
        T_GGUF,
        ("except (OSError, ValueError, library()", "except (OSError, library()"),
    ),
    fault(
        "the conversion stands beside a link to the source",
        GGUF,
        T_GGUF,
        ("path.resolve().with_name(name)", "path.with_name(name)"),
    ),
    # --- the Hub ------------------------------------------------------------------------------
    fault(
        "what is not there is fetched behind the reader's back",
        SOURCES,
        T_HUB,
        ("            if download:\n", "            if True:\n"),
    ),
    fault(
        "a file of another hash stays in the cache",
        HUB,
        T_HUB,
        ("        content.unlink(missing_ok=True)\n", "        pass\n"),
    ),
    fault(
        "a file outside of the cache is deleted",
        HUB,
        T_HUB,
        ("    if content.is_relative_to(_cache().resolve()):\n", "    if True:\n"),
    ),
    fault(
        "a full disk is called a missing network",
        HUB,
        T_HUB,
        ("isinstance(error, OSError) and error.errno in _OF_THIS_MACHINE", "False"),
    ),
    fault(
        "a damaged conversion stands in the way of the Hub's file",
        LOADER,
        T_HUB,
        (
            "                    damaged = error  # the Hub's file is as good\n",
            "                    raise error\n",
        ),
    ),
    fault(
        "whatever the Hub sends is taken",
        HUB,
        T_HUB,
        ("require_hash(path, sha256_of(path), sha256,", "require_hash(path, sha256, sha256,"),
    ),
    fault(
        "the newest revision is fetched",
        HUB,
        T_HUB,
        ("repository, name, revision=revision, endpoint", "repository, name, endpoint"),
    ),
    fault(
        "the reader's credentials are sent",
        HUB,
        T_HUB,
        ("endpoint=endpoint, token=False", "endpoint=endpoint, token=None"),
    ),
    # --- checkpoints --------------------------------------------------------------------------
    fault(
        "a checkpoint need not be that of its record",
        LOADER,
        T_CHECKPOINTS,
        ('read_record(weights)["weights_sha256"] if verify else None', "None"),
    ),
    fault(
        "a tokenizer need not be the one of the training",
        LOADER,
        T_CHECKPOINTS,
        ("        read(ours, source.tokenizer_sha256)\n", "        pass\n"),
    ),
    fault(
        "a tokenizer may have tokens that the model has not",
        LOADER,
        T_CHECKPOINTS,
        ("    if tokenizer.vocab_size != source.sizes.vocabulary:\n", "    if False:\n"),
    ),
    fault(
        "a link is replaced by what is saved",
        FILES,
        T_CHECKPOINTS,
        ("path = Path(os.path.realpath(path))", "path = Path(path)"),
    ),
    fault(
        "a number that is not finite is saved",
        CHECKPOINTS,
        T_CHECKPOINTS,
        ("        if not tensor.isfinite().all():\n", "        if False:\n"),
    ),
    fault(
        "weights are written in place, half where it breaks off",
        CHECKPOINTS,
        T_CHECKPOINTS,
        (
            "        weights.write_bytes(content)\n",
            "        path.write_bytes(content[:9])\n        weights.write_bytes(content)\n",
        ),
    ),
)
