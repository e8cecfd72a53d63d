"""A table of sizes that answers an unknown name with the names that it has.

Source   this book
Chapter  chapters/tokenization.md
Axes     attnlib/axes.py
"""


class SizesByName(dict):
    """A dictionary of `ModelSizes` by a short name.

    Example:
        >>> SizesByName(small=1)["large"]
        Traceback (most recent call last):
        KeyError: "there is no model 'large'; those that exist: small"
    """

    def __missing__(self, name: object) -> None:
        raise KeyError(f"there is no model {name!r}; those that exist: {', '.join(self)}")
