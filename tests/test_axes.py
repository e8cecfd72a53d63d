"""The claims of chapters/conventions.md about axis letters."""

import ast
import re
from pathlib import Path

import attnlib
from attnlib.axes import AXES

PACKAGE = Path(attnlib.__file__).parent


def signatures() -> list[tuple[str, str]]:
    """Every shape string in an annotation of the package: Float[Tensor, "b h t d"] and so on."""
    shapes = []
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if (
                isinstance(node, ast.Subscript)
                and isinstance(node.value, ast.Name)
                and node.value.id in {"Float", "Float64", "Bool", "Int", "Integer"}
            ):
                shapes.append((path.name, node.slice.elts[1].value))
    return shapes


def test_every_letter_of_the_convention_is_in_the_table():
    assert set(AXES) == set("btshgpdemcunrv")


def test_signatures_use_only_letters_of_the_table():
    assert len(signatures()) > 30
    for file, shape in signatures():
        for axis in shape.split():
            single = re.fullmatch(r"([a-z])(-1)?", axis)
            many = re.fullmatch(r"\*[a-z]+|\.\.\.|1", axis)
            assert many or (single and single[1] in AXES), f"{file}: {axis!r} in {shape!r}"


def test_every_einsum_uses_only_letters_of_the_table():
    found = 0
    for path in PACKAGE.rglob("*.py"):
        for equation in re.findall(r"einsum\(\s*\"([^\"]+)\"", path.read_text(encoding="utf-8")):
            found += 1
            assert set(equation) - set("->, .") <= set(AXES), f"{path.name}: {equation}"
    assert found >= 3


def test_no_identifier_says_group_or_local():
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [
                getattr(node, field)
                for field in ("id", "attr", "arg", "name")
                if isinstance(getattr(node, field, None), str)
            ]
            for name in names:
                words = name.lower().split("_")
                # the second is torch's own name
                allowed = name in ("grouped_query_attention", "param_groups")
                assert allowed or not {"group", "groups", "local"} & set(words), (
                    f"{path.name}: {name}"
                )
