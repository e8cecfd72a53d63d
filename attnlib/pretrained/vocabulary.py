r"""A WordPiece vocabulary from its file: one piece a line.

Source   Devlin et al. 2019, arXiv:1810.04805, section 3
Chapter  chapters/tokenization.md
Axes     attnlib/axes.py
"""

from pathlib import Path

from attnlib.files import read

__all__ = ["read_vocabulary"]


def read_vocabulary(path: str | Path, *, sha256: str | None = None) -> dict[str, int]:
    """Read the pieces of a WordPiece vocabulary, one a line; its number is that of the line.

    Only a newline ends a line, since other separators are pieces.

    Args:
        path: The file.
        sha256: What the file's hash must be, in hexadecimal; None takes any.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If the hash is another, the file is no UTF-8 or has the ends of lines of
            Windows, or a piece stands there twice.
    """
    path = Path(path)
    content = read(path, sha256)
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} must be a text in UTF-8: {error}") from None
    if "\r\n" in text:
        raise ValueError(f"{path} must end its lines with a newline alone, got Windows's two signs")
    pieces = text.removesuffix("\n").split("\n")
    vocabulary = {piece: i for i, piece in enumerate(pieces)}
    if len(vocabulary) != len(pieces):
        twice = next(piece for i, piece in enumerate(pieces) if vocabulary[piece] != i)
        raise ValueError(f"{path} must hold each piece once, got {twice!r} twice")
    return vocabulary
