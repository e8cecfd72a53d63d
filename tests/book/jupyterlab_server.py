"""Start JupyterLab on a folder of notebooks, and drive it in Chromium."""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from playwright.sync_api import Page

ROOT = Path(__file__).resolve().parents[2]

# Show every cell at once instead of only those in view, so that a test can look at all of them;
# and ask no questions.
SETTINGS = {
    "@jupyterlab/notebook-extension/tracker.jupyterlab-settings": {"windowingMode": "none"},
    "@jupyterlab/apputils-extension/notification.jupyterlab-settings": {
        "fetchNews": "false",
        "checkForUpdates": False,
    },
}


@contextmanager
def jupyterlab(folder: Path, private: Path) -> Iterator[str]:
    """Serve `folder` in JupyterLab on a free port; yield its address.

    Args:
        folder: What the file browser shows.
        private: An empty folder for the server's settings and log.
    """
    for name, value in SETTINGS.items():
        path = private / "settings" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(value))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {
        **os.environ,
        "JUPYTERLAB_SETTINGS_DIR": str(private / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(private / "workspaces"),
        "JUPYTER_CONFIG_DIR": str(private / "config"),
        "JUPYTER_RUNTIME_DIR": str(private / "runtime"),
        "IPYTHONDIR": str(private / "ipython"),
        # The sheet of widgets and the kernel of this very environment, and of no other.
        "JUPYTER_PLATFORM_DIRS": "1",
    }
    command = [
        sys.executable, "-m", "jupyterlab", "--allow-root", "--no-browser", f"--port={port}",
        "--ServerApp.port_retries=0", "--ServerApp.token=", "--ServerApp.password=",
        f"--ServerApp.root_dir={folder}", "--LabApp.expose_app_in_browser=True",
    ]  # fmt: skip
    log = private / "server.log"
    with log.open("w") as output:
        server = subprocess.Popen(command, env=environment, stdout=output, stderr=output)
        address = f"http://127.0.0.1:{port}"
        try:
            _wait(address, server, log)
            yield address
        finally:
            server.terminate()
            try:
                server.wait(20)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()


def _wait(address: str, server: subprocess.Popen, log: Path, seconds: float = 90) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if server.poll() is not None:
            raise RuntimeError(f"JupyterLab did not start:\n{log.read_text()}")
        try:
            with urlopen(f"{address}/api/status", timeout=5):
                return
        except (URLError, OSError):
            time.sleep(0.3)
    raise RuntimeError(f"JupyterLab did not answer in {seconds} s:\n{log.read_text()}")


def open_notebook(page: Page, address: str, name: str) -> None:
    """Open a notebook and wait until its Markdown is set and its kernel answers."""
    page.goto(f"{address}/lab/tree/{name}?reset")
    page.wait_for_selector(".jp-Notebook .jp-MarkdownOutput h1", timeout=90_000)
    page.evaluate(
        """async () => {
            await window.jupyterapp.restored;
            const {context, sessionContext} = window.jupyterapp.shell.currentWidget;
            await Promise.all([context.ready, sessionContext.ready]);
            await sessionContext.session.kernel.requestExecute({code: "", silent: true}).done;
        }"""
    )


def run_all(page: Page) -> None:
    """Run every cell of the open notebook, as its menu does, and wait for the last one.

    Raises:
        RuntimeError: If a cell was not run, or ended in an error; then with its traceback.
    """
    page.evaluate("() => window.jupyterapp.commands.execute('notebook:run-all-cells')")
    cells = page.evaluate("() => window.jupyterapp.shell.currentWidget.model.toJSON().cells")
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    errors = [
        "\n".join(output["traceback"])
        for cell in code
        for output in cell["outputs"]
        if output["output_type"] == "error"
    ]
    if errors:
        raise RuntimeError("\n".join(errors))
    skipped = [cell["source"] for cell in code if cell["execution_count"] is None]
    if skipped:
        raise RuntimeError(f"{len(skipped)} of {len(code)} cells were not run: {skipped[0]}")


def ask_kernel(page: Page, expression: str) -> str:
    """Evaluate an expression in the open notebook's kernel and return how Python prints it."""
    return page.evaluate(
        """async (expression) => {
            const {kernel} = window.jupyterapp.shell.currentWidget.sessionContext.session;
            const asked = {code: "", user_expressions: {answer: expression}, silent: true};
            const {answer} = (await kernel.requestExecute(asked).done).content.user_expressions;
            return answer.status === "ok" ? answer.data["text/plain"] : answer.evalue;
        }""",
        expression,
    )
