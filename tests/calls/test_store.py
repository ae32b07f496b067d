"""Saving and loading: what comes back, and what happens when a folder is damaged."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import attnscope
from attnscope.calls.trace import Other, Trace, Unseen
from attnscope.errors import StoreError
from tests.calls.saving import Returns, manifest_of, tensor_file, traced


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "run"
    traced().save(path)
    return path


# -- what comes back ------------------------------------------------------------------------------


def test_the_manifest_says_what_it_is(saved: Path) -> None:
    data = manifest_of(saved)
    assert (data["format"], data["version"]) == ("attnscope.trace-store", 1)
    assert (data["attnscope"], data["torch"]) == (attnscope.__version__, str(torch.__version__))
    assert {path.suffix for path in saved.iterdir()} == {".json", ".safetensors"}


def test_what_a_trace_says_beside_its_calls_comes_back(tmp_path: Path) -> None:
    trace = traced()
    trace.unseen.append(Unseen("decoder", "a scripted module"))
    trace.others.append(Other("router", trace[0].source, "router", "picks two of eight"))
    trace.notes.append("a note")
    trace[0].step, trace[0].recomputed = 3, True
    trace.save(tmp_path / "run")
    loaded = attnscope.load(tmp_path / "run")
    assert loaded.unseen == trace.unseen
    assert loaded.others == trace.others
    assert loaded.notes == trace.notes
    assert repr(loaded) == repr(trace)
    assert (loaded[0].step, loaded[0].recomputed, loaded[0].kind) == (3, True, "sdpa")
    assert loaded[0].source == trace[0].source


def test_an_empty_trace_comes_back(tmp_path: Path) -> None:
    Trace().save(tmp_path / "run")
    loaded = attnscope.load(tmp_path / "run")
    assert len(loaded) == 0
    assert loaded.output is None


def test_a_trace_that_was_loaded_can_be_saved_again(saved: Path, tmp_path: Path) -> None:
    attnscope.load(saved).save(tmp_path / "again")
    first, again = manifest_of(saved), manifest_of(tmp_path / "again")
    assert first["calls"] == again["calls"]
    assert first["tensors"].keys() == again["tensors"].keys()


def test_a_trace_can_be_saved_over_itself(saved: Path) -> None:
    trace = attnscope.load(saved)
    weights = trace[0].weights()
    trace.save(saved, overwrite=True)
    assert torch.equal(attnscope.load(saved)[0].weights(), weights)
    assert torch.equal(trace[0].weights(), weights)


@pytest.mark.parametrize(
    "wrap",
    [
        lambda x: x,
        lambda x: (x, None),
        lambda x: [x, (x + 1, 2, "three")],
        lambda x: {"logits": x, "loss": x.mean(), 0: float("nan"), "ok": True},
        lambda x: ({"a": x.to(torch.bfloat16)}, x.transpose(1, 2), x[:0], x > 0, float("-inf")),
    ],
    ids=["tensor", "tuple", "list", "dict", "nest"],
)
def test_the_output_comes_back(tmp_path: Path, wrap: Callable[[Tensor], Any]) -> None:
    trace = traced(wrap)
    trace.save(tmp_path / "run")
    loaded = attnscope.load(tmp_path / "run")
    same(loaded.output, trace.output)
    assert not loaded.notes


def same(a: Any, b: Any) -> None:
    assert type(a) is type(b)
    if isinstance(a, Tensor):
        assert a.dtype == b.dtype
        assert torch.equal(a, b)
    elif isinstance(a, (tuple, list)):
        assert len(a) == len(b)
        for one, other in zip(a, b, strict=True):
            same(one, other)
    elif isinstance(a, dict):
        assert list(a) == list(b)
        for key, value in a.items():
            same(value, b[key])
    else:
        assert repr(a) == repr(b)


def test_an_output_that_is_no_data_leaves_a_note(tmp_path: Path) -> None:
    trace = traced(lambda x: (x, object()))
    trace.save(tmp_path / "run")
    loaded = attnscope.load(tmp_path / "run")
    assert loaded.output[1] is None
    assert loaded.notes == [
        "the model's output[1] is not stored: a object is no tensor, number, tuple, list or dict"
    ]
    assert trace.notes == []


def test_an_output_of_another_type_of_dict_leaves_a_note(tmp_path: Path) -> None:
    traced(lambda x: OrderedDict(logits=x)).save(tmp_path / "run")
    loaded = attnscope.load(tmp_path / "run")
    assert type(loaded.output) is dict
    assert loaded.notes == ["the model's output is stored as a dict; it was a OrderedDict"]


def test_the_output_can_be_set(saved: Path) -> None:
    loaded = attnscope.load(saved)
    loaded.output = 3
    assert loaded.output == 3


def test_a_mask_that_layers_share_is_stored_once(tmp_path: Path) -> None:
    class Layers(nn.Module):
        def forward(self, x: Tensor, bias: Tensor) -> Tensor:
            for _ in range(6):
                x = functional.scaled_dot_product_attention(x, x, x, attn_mask=bias)
            return x

    x, bias = torch.randn(1, 2, 64, 8), torch.randn(1, 1, 64, 64)
    attnscope.trace(Layers(), x, bias).save(tmp_path / "run")
    once = bias.nbytes + 7 * x.nbytes
    assert tensor_file(tmp_path / "run").stat().st_size < once + 4096


def test_no_matrix_of_queries_and_keys_is_stored_for_a_fused_kernel(tmp_path: Path) -> None:
    x = torch.randn(1, 2, 512, 8)
    attnscope.trace(Returns(), x).save(tmp_path / "run")
    assert tensor_file(tmp_path / "run").stat().st_size < 3 * x.nbytes


def test_many_tensors_go_to_several_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attnscope.calls.blobs.SHARD_BYTES", 1000)
    trace = traced()
    trace.save(tmp_path / "run")
    assert len(list((tmp_path / "run").glob("*.safetensors"))) > 1
    loaded = attnscope.load(tmp_path / "run")
    assert torch.equal(loaded[0].q, trace[0].q)
    assert torch.equal(loaded[0].context(), trace[0].context())


def test_loading_reads_no_tensor(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(*_: object) -> None:
        raise AssertionError("a tensor was read")

    monkeypatch.setattr("attnscope.calls.blobs.TensorReader.read", read)
    loaded = attnscope.load(saved)
    assert (loaded[0].heads, loaded[0].queries, loaded[0].replay_error is None) == (3, 5, False)
    assert len(loaded[0].numbers().entropy) == 3
    assert loaded[0].shapes().rows


def test_the_home_folder_is_understood(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    traced().save("~/run")
    assert (tmp_path / "run" / "manifest.json").is_file()
    assert len(attnscope.load("~/run")) == 1


def test_a_relative_path_holds_after_a_change_of_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    traced().save("run")
    loaded = attnscope.load("run")
    monkeypatch.chdir("/")
    assert loaded[0].q.shape == (2, 3, 5, 8)


# -- where it may be written ----------------------------------------------------------------------


def test_an_existing_path_is_refused(saved: Path) -> None:
    before = (saved / "manifest.json").read_bytes()
    with pytest.raises(StoreError, match=r"it exists already; .* overwrite=True"):
        traced().save(saved)
    assert (saved / "manifest.json").read_bytes() == before


def test_overwriting_replaces_the_trace_and_leaves_nothing_beside(saved: Path) -> None:
    trace = attnscope.trace(Returns(), torch.randn(1, 1, 4, 2))
    trace.save(saved, overwrite=True)
    assert attnscope.load(saved)[0].queries == 4
    assert [path.name for path in saved.parent.iterdir()] == ["run"]


def test_overwriting_without_a_single_step_for_it(
    saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    attnscope.trace(Returns(), torch.randn(1, 1, 4, 2)).save(saved, overwrite=True)
    traced().save(saved.parent / "new")
    assert attnscope.load(saved)[0].queries == 4
    assert {path.name for path in saved.parent.iterdir()} == {"new", "run"}


@pytest.mark.parametrize("kind", ["file", "folder", "empty", "other-json"])
def test_overwriting_what_is_no_trace_is_refused(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "thesis"
    if kind == "file":
        path.write_text("precious")
    else:
        path.mkdir()
    if kind == "folder":
        (path / "chapter.txt").write_text("precious")
    if kind == "other-json":
        (path / "manifest.json").write_text("[1]")
    before = sorted(path.rglob("*")), path.is_file() and path.read_text()
    with pytest.raises(StoreError, match="no stored trace; remove it yourself"):
        traced().save(path, overwrite=True)
    assert before == (sorted(path.rglob("*")), path.is_file() and path.read_text())


def test_a_parent_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"the folder .*missing does not exist; make it first"):
        traced().save(tmp_path / "missing" / "run")
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match=r"the folder .*file is a file; make it first"):
        traced().save(tmp_path / "file" / "run")


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_failure_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, overwrite: bool
) -> None:
    path = tmp_path / "run"
    trace = traced()
    if overwrite:
        trace.save(path)
    before = sorted(tmp_path.rglob("*"))

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("attnscope.calls.blobs.save_file", full)
    with pytest.raises(StoreError, match="No space left on device; free the space"):
        trace.save(path, overwrite=overwrite)
    assert sorted(tmp_path.rglob("*")) == before


def test_any_other_failure_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise KeyError("broken")

    trace = traced()
    monkeypatch.setattr("attnscope.calls.store.pack", broken)
    with pytest.raises(KeyError):
        trace.save(tmp_path / "run")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_process_that_is_killed_leaves_no_half_trace(tmp_path: Path, *, overwrite: bool) -> None:
    path = tmp_path / "run"
    if overwrite:
        traced().save(path)
    code = """
        import os, signal, sys, torch, attnscope
        from torch.nn import functional as F
        from attnscope.calls import store
        trace = attnscope.trace(lambda x: F.scaled_dot_product_attention(x, x, x),
                                torch.randn(1, 1, 9, 4))
        store.write_durably = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
        trace.save(sys.argv[1], overwrite=True)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), str(path)], check=False, capture_output=True
    )
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()
    beside = [one.name for one in tmp_path.iterdir() if one != path]
    assert len(beside) == 1
    assert beside[0].startswith(".run.")
    assert beside[0].endswith(".partial")
    if overwrite:
        assert attnscope.load(path)[0].queries == 5
    else:
        assert not path.exists()
