"""What comes from the Hugging Face Hub comes whole and right, or not at all.

A small server on this machine plays the Hub; nothing is asked of any other host.
"""

import errno
import hashlib
import json
import re
import sys
import threading
from dataclasses import replace
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import safetensors.torch
import torch
from huggingface_hub import constants, file_download

from attnlib import PUBLISHED, AttentionSizes, LanguageModel, load_pretrained
from attnlib.pretrained import SOURCES, WEIGHTS, gguf_files, is_installed, sources
from attnlib.pretrained.hub import already_fetched, fetch
from attnlib.pretrained.names import llama_names

REPOSITORY, REVISION, NAME = (
    "somebody/a-model",
    "0123456789abcdef" * 2 + "01234567",
    "a.safetensors",
)
CONTENT = bytes(range(256)) * 300
RIGHT = hashlib.sha256(CONTENT).hexdigest()


class Hub:
    """Serves a file; `breaks` says after how many bytes each of the next answers breaks off."""

    def __init__(self):
        self.name, self.content = NAME, CONTENT
        self.breaks, self.status, self.asked = [], 200, []
        hub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_HEAD(self):
                self.answer(whole=False)

            def do_GET(self):
                self.answer(whole=True)

            def answer(self, whole):
                sent = {key.lower(): value for key, value in self.headers.items()}
                hub.asked.append((self.command, self.path, sent.get("range"), sent))
                if hub.status != 200 or self.path != f"/{REPOSITORY}/resolve/{REVISION}/{hub.name}":
                    status = hub.status if hub.status != 200 else 404
                    self.reply(status, json.dumps({"error": "no"}).encode() if whole else b"")
                    return
                start = int(re.fullmatch(r"bytes=(\d+)-", sent.get("range", "bytes=0-"))[1])
                part = hub.content[start:]
                self.send_response(206 if start else 200)
                self.send_header("Content-Length", str(len(part)))
                self.send_header("ETag", f'"{hashlib.sha256(hub.content).hexdigest()}"')
                self.send_header("X-Repo-Commit", REVISION)
                self.send_header("Accept-Ranges", "bytes")
                if start:
                    last = len(hub.content) - 1
                    self.send_header("Content-Range", f"bytes {start}-{last}/{last + 1}")
                self.end_headers()
                if whole:
                    if hub.breaks:
                        part = part[: hub.breaks.pop(0)]
                        self.close_connection = True
                    self.wfile.write(part)

            def reply(self, status, content):
                self.send_response(status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.endpoint = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def hub():
    hub = Hub()
    yield hub
    hub.close()


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """An empty cache, and no waiting between two tries."""
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(file_download.time, "sleep", lambda seconds: None)
    return tmp_path / "hub"


def fetched(hub, **changes):
    return fetch(
        REPOSITORY, REVISION, NAME, **{"sha256": RIGHT, "endpoint": hub.endpoint} | changes
    )


def left_in(folder):
    """What a cache holds beside its locks and its label."""
    found = (p for p in folder.rglob("*") if p.is_file() or p.is_symlink())
    return [p.name for p in found if p.suffix not in (".lock", ".TAG")]


def refused(kind, says, hub, cache, **changes):
    with pytest.raises(kind, match=says) as caught:
        fetched(hub, **changes)
    assert NAME in str(caught.value)
    assert left_in(cache) == []
    assert already_fetched(REPOSITORY, REVISION, NAME) is None


def test_a_file_comes_whole_from_the_pinned_revision_and_only_once(hub):
    assert already_fetched(REPOSITORY, REVISION, NAME) is None
    path = fetched(hub)
    assert path.read_bytes() == CONTENT
    assert {(command, where) for command, where, _, _ in hub.asked} == {
        (command, f"/{REPOSITORY}/resolve/{REVISION}/{NAME}") for command in ("HEAD", "GET")
    }
    n_asked = len(hub.asked)
    assert fetched(hub) == already_fetched(REPOSITORY, REVISION, NAME) == path
    assert len(hub.asked) == n_asked


def test_no_credentials_are_sent(hub, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_not_a_token")
    fetched(hub)
    assert all("authorization" not in sent for *_, sent in hub.asked)


def test_where_the_connection_breaks_it_goes_on_from_there(hub, monkeypatch):
    monkeypatch.setattr(constants, "DOWNLOAD_CHUNK_SIZE", 500)  # of 10 MB, which are more than all
    hub.breaks = [1000, 20_000]
    assert fetched(hub).read_bytes() == CONTENT
    ranges = [wanted for command, _, wanted, _ in hub.asked if command == "GET"]
    assert ranges == [None, "bytes=1000-", "bytes=21000-"]


def test_a_connection_that_breaks_again_and_again_leaves_nothing(hub, cache):
    hub.breaks = [1000] + [0] * 20
    refused(ConnectionError, "did not come whole.*nothing of it was kept", hub, cache)
    hub.breaks = []
    assert fetched(hub).read_bytes() == CONTENT


@pytest.mark.parametrize("status", [403, 404, 500])
def test_an_answer_that_is_none_leaves_nothing(hub, cache, status):
    hub.status = status
    refused(ConnectionError, "did not come whole from the Hugging Face Hub", hub, cache)


def test_without_a_network_one_sentence_says_so(hub, cache):
    hub.close()
    refused(ConnectionError, "Is there a network?", hub, cache)


def test_a_library_that_is_told_to_stay_offline_does(hub, cache, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    refused(ConnectionError, "Is there a network?", hub, cache)
    assert hub.asked == []


def test_a_file_of_another_hash_is_deleted_and_the_right_one_comes_the_next_time(hub, cache):
    hub.content = CONTENT[:-1] + b"x"
    wrong = hashlib.sha256(hub.content).hexdigest()
    refused(ValueError, f"with SHA-256 {RIGHT}, got {wrong}", hub, cache)
    hub.content = CONTENT
    assert fetched(hub).read_bytes() == CONTENT


def test_a_file_outside_of_the_cache_is_not_deleted_whatever_links_to_it(hub, cache, tmp_path):
    mine = tmp_path / "mine.safetensors"
    fetched(hub)
    link = already_fetched(REPOSITORY, REVISION, NAME)
    mine.write_bytes(b"trained further")
    link.unlink()
    link.symlink_to(mine)
    assert fetched(hub).read_bytes() == CONTENT
    assert mine.read_bytes() == b"trained further"


def test_a_wrong_file_that_cannot_be_deleted_is_refused_and_not_asked_for_again(hub, monkeypatch):
    path = fetched(hub)
    path.write_bytes(CONTENT[:-1])
    n_asked = len(hub.asked)

    def unlink(self, missing_ok=False):
        raise PermissionError(errno.EACCES, "Permission denied", str(self))

    with monkeypatch.context() as patch:
        patch.setattr("pathlib.Path.unlink", unlink)
        with pytest.raises(ValueError, match=r"SHA-256.*could not be deleted \(.*Permission"):
            fetched(hub)
    assert path.read_bytes() == CONTENT[:-1] and len(hub.asked) == n_asked


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EACCES, errno.EROFS])
def test_a_disk_that_takes_nothing_is_not_called_a_missing_network(hub, monkeypatch, number):
    def http_get(*_, **__):
        raise OSError(number, "it is full")

    monkeypatch.setattr(file_download, "http_get", http_get)
    with pytest.raises(
        OSError, match=r"a\.safetensors of .* could not be kept in .*it is full"
    ) as e:
        fetched(hub)
    assert e.value.errno == number and not isinstance(e.value, ConnectionError)


def test_without_the_library_the_error_says_what_to_install(hub, monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ImportError, match="pip install huggingface-hub"):
        fetched(hub)


# --- by name ----------------------------------------------------------------------------------

SIZES = replace(
    PUBLISHED["smollm2-135m"],
    n_layers=1,
    width=14,
    attention=AttentionSizes(n_query_heads=6, n_kv_heads=2, head_dim=4, value_dim=4),
    feed_forward_width=10,
    vocabulary=11,
)


@pytest.fixture
def published(hub, monkeypatch, tmp_path):
    """A small Llama on the stand-in, and nothing of it on this machine."""
    model = LanguageModel(SIZES, pairing="half")
    names = llama_names(SIZES)
    hub.name = WEIGHTS
    hub.content = safetensors.torch.save(
        {names[ours]: p.detach().bfloat16() for ours, p in model.named_parameters()}
    )
    known = SOURCES["smollm2-135m"]
    source = replace(
        known,
        sizes=SIZES,
        package="a_package_that_is_not_there",
        source=REPOSITORY,
        revision=REVISION,
        sha256=known.sha256 | {WEIGHTS: hashlib.sha256(hub.content).hexdigest()},
    )
    monkeypatch.setitem(SOURCES, "smollm2-135m", source)
    monkeypatch.setattr(sources, "fetch", partial(fetch, endpoint=hub.endpoint))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return model


def test_nothing_is_fetched_unless_it_is_asked_for_and_then_once(hub, published):
    with pytest.raises(FileNotFoundError, match="download=True"):
        load_pretrained("smollm2-135m")
    assert hub.asked == [] and not is_installed("smollm2-135m")
    ours = load_pretrained("smollm2-135m", download=True).model
    for name, parameter in published.named_parameters():
        assert torch.equal(ours.get_parameter(name), parameter.bfloat16().float())
    n_asked = len(hub.asked)
    assert is_installed("smollm2-135m")
    again = load_pretrained("smollm2-135m").model
    assert torch.equal(again.decoder.word_embedding.weight, ours.decoder.word_embedding.weight)
    assert n_asked == len(hub.asked) >= 2


def test_a_model_that_did_not_come_right_leaves_nothing(hub, published, cache):
    right = hub.content
    hub.content = right[:-1] + bytes([right[-1] ^ 1])
    with pytest.raises(ValueError, match="must be the published file, with SHA-256"):
        load_pretrained("smollm2-135m", download=True)
    assert left_in(cache) == []
    hub.content = right
    assert load_pretrained("smollm2-135m", download=True).name == "smollm2-135m"


def test_what_was_fetched_and_damaged_since_is_refused_and_fetched_anew(hub, published):
    load_pretrained("smollm2-135m", download=True)
    path = already_fetched(REPOSITORY, REVISION, WEIGHTS)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ValueError, match="must be the published file, with SHA-256"):
        load_pretrained("smollm2-135m")
    ours = load_pretrained("smollm2-135m", download=True).model
    assert torch.equal(ours.decoder.end_norm.weight, published.decoder.end_norm.weight)


@pytest.fixture
def damaged(published, tmp_path):
    """A conversion in the user's cache folder, of another source."""
    source = SOURCES["smollm2-135m"]
    name = f"{source.gguf.removesuffix('.gguf')}.{source.sha256[source.gguf][:16]}.safetensors"
    path = tmp_path / "cache" / "attnlib" / name
    path.parent.mkdir(parents=True)
    safetensors.torch.save_file({"x": torch.ones(2)}, path)
    assert gguf_files.kept_for_user(source.gguf, source.sha256[source.gguf]) == path
    return path


def test_a_damaged_conversion_without_its_source_is_named_and_what_helps_is_said(damaged):
    with pytest.raises(FileNotFoundError, match=rf"{damaged.name} must be .*download=True"):
        load_pretrained("smollm2-135m")


def test_a_damaged_conversion_does_not_stand_in_the_way_of_the_hubs_file(damaged, published):
    ours = load_pretrained("smollm2-135m", download=True).model
    assert torch.equal(ours.decoder.end_norm.weight, published.decoder.end_norm.weight)
