"""What a planted fault is: a change of a few characters that some test must notice."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Fault:
    """Each old text stands exactly once in its file and is replaced by the new one."""

    name: str
    bug: str = ""
    file: str
    edits: tuple[tuple[str, str], ...]
    test: str


def fault(name: str, file: str, test: str, *edits: tuple[str, str], bug: str = "") -> Fault:
    return Fault(name=name, bug=bug, file=file, edits=edits, test=test)
