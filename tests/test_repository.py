"""What the repository says about itself: pins, set-up, the two commands.

Chapter  chapters/how-this-book-is-checked.md
"""

import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).parents[1]


def load(name: str):
    spec = importlib.util.spec_from_file_location(f"book_{name}", ROOT / "book" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def set_up():
    return load("set_up")


def pins() -> dict[str, str]:
    lines = (ROOT / "requirements.txt").read_text().splitlines()
    return dict(line.split("==") for line in lines if line and not line.startswith("#"))


def test_every_requirement_is_pinned_exactly():
    lines = (ROOT / "requirements.txt").read_text().splitlines()
    loose = [line for line in lines if line and not line.startswith("#") and "==" not in line]
    assert loose == []
    assert pins()["torch"] == "2.13.0"


def test_conda_and_pip_pin_the_same():
    found = re.findall(r"^ +- (\S+)==(\S+)$", (ROOT / "environment.yml").read_text(), re.M)
    assert dict(found) == pins()


def test_attnlib_itself_sets_lower_bounds_only():
    text = (ROOT / "pyproject.toml").read_text()
    blocks = re.findall(
        r"^(?:dependencies|notebooks|book|tests|pretrained) = \[(.*?)\]", text, re.M | re.S
    )
    requirements = re.findall(r'"([^"]+)"', " ".join(blocks))
    assert len(requirements) > 10
    bounded = [each for each in requirements if not re.fullmatch(r"[\w-]+>=[\d.]+", each)]
    assert bounded == ["jupyter-book>=1.0.4.post1,<2"]  # version 2 reads other files


def test_the_readme_gives_the_commands_of_the_makefile():
    readme, makefile = (ROOT / "README.md").read_text(), (ROOT / "Makefile").read_text()
    build = re.search(r"^BUILD := (.+)$", makefile, re.M)[1]
    assert build in readme and "python3 book/set_up.py" in readme
    assert "make test" in (ROOT / ".ci" / "run").read_text()
    assert "bash .ci/run" in (ROOT / ".github" / "workflows" / "book.yml").read_text()


def test_plain_make_lists_every_documented_target():
    if not shutil.which("make"):
        pytest.fail("this test needs make, as the README says")
    printed = subprocess.check_output(["make", "--no-print-directory"], cwd=ROOT, text=True)
    documented = re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(), re.M)
    assert re.findall(r"^  make (\S+)", printed, re.M) == sorted(documented)
    assert {"book", "test", "serve"} <= set(documented)


@pytest.mark.parametrize(
    "place", ["requirements.txt", "book/package-lock.json", "book/package.json"]
)
def test_no_download_address_is_written_down(place):
    assert "://" not in (ROOT / place).read_text()


def test_an_old_python_without_a_newer_one_is_told_what_to_do(set_up, monkeypatch):
    monkeypatch.setattr(
        set_up, "sys", SimpleNamespace(version_info=(3, 9, 2), exit=sys.exit, argv=[])
    )
    monkeypatch.setattr(set_up.shutil, "which", lambda name, **_: None)
    with pytest.raises(SystemExit, match=r"needs Python 3.11.5 or newer and found only 3.9.2"):
        set_up.require_python()


def test_an_old_python_hands_over_to_a_newer_one(set_up, monkeypatch):
    def become(path, arguments):  # as os.execv, it does not return
        raise SystemExit((path, arguments))

    monkeypatch.setattr(set_up, "sys", SimpleNamespace(version_info=(3, 9, 2), argv=["set_up.py"]))
    monkeypatch.setattr(set_up.shutil, "which", lambda name, **_: f"/somewhere/{name}")
    monkeypatch.setattr(set_up, "version_of", lambda path: (3, 12, 1))
    monkeypatch.setattr(set_up.os, "execv", become)
    with pytest.raises(SystemExit) as became:
        set_up.require_python()
    newest = "/somewhere/python3.14"
    assert became.value.code == (newest, [newest, "set_up.py"])


def test_a_full_disk_ends_in_one_sentence(set_up, monkeypatch):
    monkeypatch.setattr(set_up.shutil, "disk_usage", lambda path: SimpleNamespace(free=2e8))
    with pytest.raises(SystemExit, match=r"disk is too full: .* 0\.2 GB are free") as stopped:
        set_up.require_space()
    assert "\n" not in str(stopped.value).strip()


def test_what_is_set_up_is_not_set_up_again(set_up, monkeypatch, tmp_path):
    monkeypatch.setattr(set_up, "ROOT", str(tmp_path))
    (tmp_path / "place").mkdir()
    runs = []
    for stamp in ("one", "one", "two"):
        set_up.step("Packages", "place", stamp, lambda: runs.append(stamp))  # noqa: B023
    assert runs == ["one", "two"]


def test_a_failed_step_is_repeated(set_up, monkeypatch, tmp_path):
    monkeypatch.setattr(set_up, "ROOT", str(tmp_path))
    (tmp_path / "place").mkdir()

    def fail():
        raise SystemExit("no network")

    with pytest.raises(SystemExit):
        set_up.step("Packages", "place", "one", fail)
    runs = []
    set_up.step("Packages", "place", "one", lambda: runs.append(1))
    assert runs == [1]


def test_an_interrupted_step_is_not_taken_for_done(set_up, monkeypatch, tmp_path):
    monkeypatch.setattr(set_up, "ROOT", str(tmp_path))
    (tmp_path / "place").mkdir()
    set_up.step("Packages", "place", "one", lambda: None)

    def interrupted():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        set_up.step("Packages", "place", "two", interrupted)
    runs = []
    set_up.step("Packages", "place", "one", lambda: runs.append(1))
    assert runs == [1]


def test_another_python_installs_anew(set_up, monkeypatch):
    monkeypatch.setattr(set_up, "here", lambda: "3.12.1")
    stamp = set_up.packages_stamp()
    monkeypatch.setattr(set_up, "here", lambda: "3.13.0")
    assert set_up.packages_stamp() != stamp


@pytest.mark.parametrize("what", ["a file", "a folder"])
def test_a_venv_that_is_none_is_left_alone(set_up, monkeypatch, tmp_path, what):
    venv = tmp_path / ".venv"
    venv.write_text("mine") if what == "a file" else (venv / "mine").mkdir(parents=True)
    monkeypatch.setattr(set_up, "VENV", str(venv))
    monkeypatch.setattr(set_up, "PYTHON", str(venv / "bin" / "python"))
    with pytest.raises(SystemExit, match=r"no Python 3.11.5 or newer in it: move it away"):
        set_up.see_to_environment()
    assert venv.is_file() or (venv / "mine").is_dir()


@pytest.mark.parametrize("says", ["v16.20.0", "command not found", ""])
def test_a_node_that_is_old_or_strange_is_replaced(set_up, monkeypatch, says):
    monkeypatch.setattr(set_up, "find", lambda name: f"/somewhere/{name}")
    answer = SimpleNamespace(returncode=0, stdout=says)
    monkeypatch.setattr(set_up.subprocess, "run", lambda *_, **__: answer)
    assert set_up.node_is_old()
    answer.stdout = "v20.1.0"
    assert not set_up.node_is_old()


def test_a_python_that_does_not_answer_has_no_version(set_up, tmp_path):
    assert set_up.version_of(str(tmp_path / "missing")) == (0,)
    assert set_up.version_of("false") == (0,)


def test_the_makefile_runs_one_step_after_the_other():
    assert "\n.NOTPARALLEL:\n" in (ROOT / "Makefile").read_text()


def test_no_browser_ends_in_a_sentence_and_not_in_a_skip(monkeypatch):
    browser = load("browser")
    monkeypatch.delenv("CHROMIUM", raising=False)
    monkeypatch.setattr(browser.shutil, "which", lambda name: None)
    monkeypatch.setattr(browser, "MAC_APPLICATIONS", ())
    monkeypatch.setattr(browser, "_playwright_browser", lambda: None)
    with pytest.raises(RuntimeError, match=r"need Chromium or Chrome and found none: install one"):
        browser.browser()


def test_a_browser_can_be_named(monkeypatch, tmp_path):
    browser = load("browser")
    named = tmp_path / "chromium"
    named.touch()
    monkeypatch.setenv("CHROMIUM", str(named))
    assert browser.browser() == str(named)
    monkeypatch.setenv("CHROMIUM", str(tmp_path / "missing"))
    with pytest.raises(SystemExit, match="is not a file"):
        browser.browser()


def test_every_folder_of_the_package_is_in_the_wheel():
    listed = re.search(
        r"^packages = \[(.*?)^\]", (ROOT / "pyproject.toml").read_text(), re.M | re.S
    )
    folders = {path.parent.relative_to(ROOT) for path in (ROOT / "attnlib").rglob("__init__.py")}
    assert set(re.findall(r'"(.+?)"', listed[1])) == {".".join(x.parts) for x in folders}
