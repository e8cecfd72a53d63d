"""The button "Measure here" in JupyterLab, with a real kernel: the smallest model, a short text."""

import ast
from collections.abc import Iterator

import nbformat
import pytest
from controls import next_frames
from jupyterlab_server import ask_kernel, jupyterlab, open_notebook, run_all
from pages import chromium
from playwright.sync_api import Page

CODE = """\
import attnlib, torch
torch.set_num_threads(1)
explorer = attnlib.explore("generation-times", n_layers=1, n_heads=2, n_new=48)
explorer"""


@pytest.fixture(scope="module")
def lab(tmp_path_factory) -> Iterator[Page]:
    folder, private = tmp_path_factory.mktemp("shown"), tmp_path_factory.mktemp("private")
    cells = [nbformat.v4.new_markdown_cell("# Timed"), nbformat.v4.new_code_cell(CODE)]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    notebook = nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel})
    nbformat.write(notebook, folder / "timed.ipynb")
    with jupyterlab(folder, private) as address, chromium() as browser:
        page = browser.new_page(viewport={"width": 1280, "height": 1000})
        open_notebook(page, address, "timed.ipynb")
        run_all(page)
        yield page


def test_the_button_measures_in_the_kernel_and_reset_keeps_what_it_found(lab):
    box = lab.locator(".attn-box.attn-generation-times")
    rows = box.locator("tbody tr:visible")
    button = box.locator("button[name=measure]")
    button.wait_for()  # until the kernel has said that it can
    assert rows.count() == 2
    button.press("Enter")
    note = box.locator("[role=status].attn-note", has_text="Measured: the table and")
    note.wait_for(timeout=60_000)
    assert rows.count() == 4
    found = ast.literal_eval(ask_kernel(lab, "explorer.facts()['here']['cached']['all']"))
    assert all(x > 0 for x in found)
    # the words are Python's, of times that only the kernel knew
    words = ast.literal_eval(ask_kernel(lab, "explorer.describe()"))
    assert "Measured here" in words
    assert box.locator(".attn-words").inner_text() == words
    box.locator("input[name=n_new]").press("Home")
    box.locator("button[name=reset]").click()
    next_frames(lab)
    assert box.locator(".attn-words").inner_text() == words
