"""What the scripts that write data have in common on the command line."""

import argparse
from pathlib import Path

__all__ = ["DATA", "parser_of", "say"]

DATA = Path(__file__).resolve().parent.parent / "attnlib" / "data"


def parser_of(doc: str, data: Path | None = None) -> argparse.ArgumentParser:
    """Begin a command whose docstring explains it: its first line, then how it is used.

    Args:
        doc: The docstring.
        data: The folder to write in where none is named, for a command that takes one.
    """
    summary, _, usage = doc.partition("\n\n")
    parser = argparse.ArgumentParser(
        description=summary, epilog=usage, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="compare only, write nothing")
    if data is not None:
        parser.add_argument("--data", type=Path, default=data, help="its folder [%(default)s]")
    return parser


def say(line: str) -> None:
    """Print what was done at once, also where the output goes to a file."""
    print(line, flush=True)
