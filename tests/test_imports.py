"""What importing attnlib costs, and which module may import which."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import attnlib

PACKAGE = Path(attnlib.__file__).parent

# The modules in the order of the design: each imports only modules that stand before it.
ORDER = [
    ["require"],
    ["axes"],
    ["definitions"],
    ["tensor_checks"],
    ["softmax"],
    ["masks"],
    ["positions"],
    ["token_checks"],
    ["word_piece"],
    ["attention"],
    ["latent"],
    ["caches"],
    ["sizes"],
    ["cost"],
    ["layers", "models"],
    ["progress", "files"],
    ["timing"],
    ["vector_products"],
    ["fast_decoding"],
    ["sampling"],
    ["token_rows"],
    ["generation", "speculative", "beams", "likelihood", "training"],
    ["data"],
    ["pre_tokens", "byte_pairs"],
    ["tokenizer", "embeddings"],
    ["number_words", "n_grams"],
    ["pretrained"],
    ["approximate"],
    ["explore", "plots", "exercises"],
]
NAMES = [name for row in ORDER for name in row]
HEAVY = (
    "plotly",
    "ipywidgets",
    "anywidget",
    "sympy",
    "transformers",
    "pandas",
    "matplotlib",
    "regex",
    "safetensors",
    "gguf",
    "huggingface_hub",
)


def source_files() -> list[Path]:
    files = [p for p in sorted(PACKAGE.rglob("*.py")) if p != PACKAGE / "__init__.py"]
    assert len(files) >= 7
    return files


def module_of(path: Path) -> str:
    """The name in the table: attnlib/data/__init__.py belongs to data."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports_of(path: Path) -> set[str]:
    """The modules of attnlib that a file imports, wherever in the file; "" is attnlib itself."""
    own = f"attnlib.{module_of(path)}" if path.is_relative_to(PACKAGE) else None
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level:
            names = [own]
        elif isinstance(node, ast.ImportFrom) and node.module == "attnlib":
            names = [f"attnlib.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module]
        else:
            continue
        for name in names:
            first, _, rest = name.partition(".")
            if first == "attnlib":
                found.add(rest.partition(".")[0])
    return found


def test_every_module_stands_in_the_order():
    assert {module_of(path) for path in source_files()} <= set(NAMES)


@pytest.mark.parametrize("path", source_files(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_a_module_imports_only_modules_before_it(path):
    name = module_of(path)
    row = next(i for i, names in enumerate(ORDER) if name in names)
    before = {other for names in ORDER[: row + 1] for other in names}
    assert imports_of(path) <= before


def test_the_check_of_imports_sees_every_form(tmp_path):
    source = "import attnlib.softmax\nfrom attnlib import axes\nfrom attnlib.data import plays\n"
    source += "def f():\n    import attnlib\n"
    path = tmp_path / "example.py"
    path.write_text(source, encoding="utf-8")
    assert imports_of(path) == {"softmax", "axes", "data", ""}


@pytest.mark.parametrize("path", source_files(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_a_private_name_is_used_in_its_own_file_only(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("attnlib"):
            assert not [alias.name for alias in node.names if alias.name.startswith("_")]


def test_definitions_import_nothing_here_and_only_exercises_imports_them():
    for path in (PACKAGE / "definitions").glob("*.py"):
        assert imports_of(path) <= {"definitions"}
    importers = {module_of(p) for p in source_files() if "definitions" in imports_of(p)} - {
        "definitions"
    }
    assert importers <= {"exercises"}
    package = ast.parse((PACKAGE / "__init__.py").read_text(encoding="utf-8"))
    eager = [n.module for n in ast.walk(package) if isinstance(n, ast.ImportFrom)]
    assert "attnlib.softmax" in eager
    assert "attnlib.definitions" not in eager


def test_modules_with_state_live_in_layers_and_models_only():
    for path in source_files():
        if module_of(path) in {"layers", "models"}:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                bases = {ast.unparse(base).rpartition(".")[2] for base in node.bases}
                assert "Module" not in bases, f"{path.name}: {node.name}"


def run(code: str) -> list[str]:
    """What a fresh interpreter prints, line by line."""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=PACKAGE.parent
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_importing_attnlib_pulls_in_nothing_heavy_and_takes_under_a_second():
    heavy, fast, lazy, definition, called = run(
        f"""
import sys, time, torch
before = set(sys.modules)
start = time.process_time()
import attnlib
seconds = time.process_time() - start
attnlib.dot_product_attention(*(torch.ones(1, 1, 2, 2) for _ in range(3)))
new = set(sys.modules) - before
print(sorted({{name.partition(".")[0] for name in new}} & set({HEAVY!r})))
print(seconds < 1)
lazy = ["cost", "data", "definitions", "exercises", "explore", "plots"]
print([name for name in lazy if f"attnlib.{{name}}" in sys.modules or name not in dir(attnlib)])
print(attnlib.definitions.softmax([0.0, 0.0]).tolist())
print(callable(attnlib.explore))
"""
    )
    assert heavy == "[]"
    assert fast == "True"
    assert lazy == "[]"
    assert definition == "[0.5, 0.5]"
    assert called == "True"


@pytest.mark.parametrize("first", ["attnlib", "attnlib.explore"])
def test_explore_can_be_called_whether_or_not_its_subpackage_was_imported(first):
    (kind,) = run(f"import {first}\nprint(type(attnlib.explore('softmax')).__name__)")
    assert kind == "SoftmaxExplorer"


def test_names_that_do_not_exist_are_refused_by_name():
    with pytest.raises(AttributeError, match="module 'attnlib' has no attribute 'sofmax'"):
        attnlib.sofmax  # noqa: B018


def test_public_names_exist():
    assert len(set(attnlib.__all__)) == len(attnlib.__all__)
    for name in attnlib.__all__:
        assert getattr(attnlib, name) is not None
