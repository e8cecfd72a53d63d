"""Keep the icons that the built pages use, and drop the other two thousand.

The theme ships whole icon fonts. After the build its copies in the book are cut down to the
used glyphs, and its style sheet to the used names.
"""

import re
from pathlib import Path

import pydata_sphinx_theme
from fontTools import subset
from sphinx.application import Sphinx

THEME = Path(pydata_sphinx_theme.__file__).parent / "theme/pydata_sphinx_theme/static"
FONTS = "vendor/fontawesome/webfonts"
SHEET = "styles/pydata-sphinx-theme.css"
ICON_RULE = re.compile(r'((?:\.fa-[\w-]+:{1,2}before,?)+)\{content:"\\([0-9a-f]{4})"\}')
ESCAPED = re.compile(r'"\\([0-9a-f]{4})"')
PRIVATE = re.compile("[\ue000-\uf8ff]")
ICON_NAME = re.compile(r"\bfa-[a-z0-9-]+")
TRUETYPE = re.compile(r',url\([^)]*\.ttf\) format\("truetype"\)')


def keep_used_icons(app: Sphinx, exception: Exception | None) -> None:
    """Cut down the icon fonts and the style sheet of a finished HTML build."""
    if exception or app.builder.format != "html":
        return
    static = Path(app.outdir) / "_static"
    sheet, points = cut_sheet((THEME / SHEET).read_text("utf-8"), used_names(Path(app.outdir)))
    (static / SHEET).write_text(sheet, "utf-8")
    for font in sorted((THEME / FONTS).glob("*.woff2")):
        cut_font(font, static / FONTS / font.name, points)
    for unused in [*(static / FONTS).glob("*.ttf"), *(static / "scripts").glob("fontawesome.js*")]:
        unused.unlink()


def used_names(built: Path) -> set[str]:
    """Every icon name in the built pages and in the scripts that make more of them."""
    files = [*built.rglob("*.html"), *(built / "_static").glob("*.js")]
    files += [
        path for path in (built / "_static/scripts").glob("*.js") if "fontaw" not in path.name
    ]
    return {name for path in files for name in ICON_NAME.findall(path.read_text("utf-8"))}


def cut_sheet(sheet: str, names: set[str]) -> tuple[str, set[int]]:
    """Return the sheet without the rules of unused icons, and the code points it still shows."""

    def keep(rule: re.Match) -> str:
        mine = set(re.findall(r"\.(fa-[\w-]+):", rule[1]))
        return rule[0] if mine & names else ""

    cut = TRUETYPE.sub("", ICON_RULE.sub(keep, sheet))
    points = {int(point, 16) for point in ESCAPED.findall(cut)}
    return cut, points | {ord(character) for character in PRIVATE.findall(cut)}


def cut_font(source: Path, target: Path, points: set[int]) -> None:
    """Write the font with the glyphs of `points` alone."""
    options = subset.Options(flavor="woff2", layout_features=[], notdef_outline=True)
    font = subset.load_font(str(source), options)
    subsetter = subset.Subsetter(options)
    subsetter.populate(unicodes=points)
    subsetter.subset(font)
    target.parent.mkdir(parents=True, exist_ok=True)
    subset.save_font(font, str(target), options)
