"""Rewrite what follows from the direct pins of requirements.txt: `make pins`.

The first section of requirements.txt is written by hand. This script pins what those
packages brought into .venv, and copies all pins into environment.yml.
"""

import importlib.metadata
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIVIDER = "# What those bring along (written by `make pins`)."
ENVIRONMENT = """\
# The pins of requirements.txt for conda (written by `make pins`; a test compares the two).
name: attention
channels: [conda-forge]
dependencies:
  - python=3.11
  - pip
  - pip:
"""


def pins(lines) -> list[str]:
    """The requirement lines among `lines`, comments stripped."""
    return [bare for line in lines if (bare := line.split("#")[0].strip())]


def name(pin: str) -> str:
    return re.sub(r"[-_.]+", "-", pin.split("==")[0]).lower()


def main() -> None:
    requirements = ROOT / "requirements.txt"
    by_hand = requirements.read_text().split(DIVIDER)[0].rstrip() + "\n"
    direct = {name(pin) for pin in pins(by_hand.splitlines())}
    frozen = subprocess.check_output([sys.executable, "-m", "pip", "freeze"], text=True)
    # A build label such as torch's +cpu names a machine's choice, not a version.
    rest = sorted(
        {
            re.sub(r"\+\w+$", "", pin)
            for pin in pins(frozen.splitlines())
            if "==" in pin and name(pin) not in direct and name(pin) in needed(direct)
        },
        key=str.lower,
    )
    requirements.write_text("\n".join([by_hand, DIVIDER, *rest]) + "\n")
    every = pins(requirements.read_text().splitlines())
    (ROOT / "environment.yml").write_text(
        ENVIRONMENT + "".join(f"      - {pin}\n" for pin in every)
    )
    print(f"{len(direct)} direct and {len(rest)} further pins written")


def needed(direct: set[str]) -> set[str]:
    """The names of all installed packages that the direct ones require, directly or not."""
    found, open_names = set(), set(direct)
    while open_names:
        current = open_names.pop()
        found.add(current)
        try:
            requirements = importlib.metadata.requires(current) or []
        except importlib.metadata.PackageNotFoundError:
            continue
        open_names |= {name(re.match(r"[\w.-]+", each)[0]) for each in requirements} - found
    return found


if __name__ == "__main__":
    main()
