"""Damaged folders: each kind of damage is named, and nothing is half-loaded."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import attnscope
from attnscope.calls import store
from attnscope.errors import StoreError
from tests.calls.saving import manifest_of, tensor_file, traced


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "run"
    traced().save(path)
    return path


def rewrite(path: Path, change: Callable[[dict[str, Any]], object], *, sign: bool = False) -> None:
    data = manifest_of(path)
    change(data)
    if sign:
        data.pop("checksum")
        data["checksum"] = store._checksum(data)
    (path / "manifest.json").write_text(json.dumps(data))


def refused(path: Path) -> StoreError:
    with pytest.raises(StoreError) as caught:
        attnscope.load(path)
    assert all((caught.value.doing, caught.value.found, caught.value.todo))
    assert str(path) in caught.value.doing
    return caught.value


def test_what_is_no_folder_is_named(tmp_path: Path) -> None:
    assert "there is no such folder" in refused(tmp_path / "nothing").found
    (tmp_path / "file").touch()
    assert "it is a file" in refused(tmp_path / "file").found
    (tmp_path / "empty").mkdir()
    assert "has no manifest.json" in refused(tmp_path / "empty").found


def test_another_format_is_named(saved: Path) -> None:
    rewrite(saved, lambda data: data.update(format="other"), sign=True)
    error = refused(saved)
    assert "not one of format attnscope.trace-store" in error.found
    (saved / "manifest.json").write_text("[]")
    assert refused(saved).found == error.found


def test_a_newer_version_asks_for_an_upgrade(saved: Path) -> None:
    rewrite(saved, lambda data: data.update(version=2, attnscope="9.9", more="unknown"))
    error = refused(saved)
    assert "version 2, this attnscope reads up to version 1" in error.found
    assert "upgrade attnscope" in error.todo
    assert "9.9" in error.todo


@pytest.mark.parametrize("text", ["", "{", '{"format": NaN}', "\x00\x01"], ids=range(4))
def test_a_manifest_that_is_no_json_is_damaged(saved: Path, text: str) -> None:
    (saved / "manifest.json").write_text(text)
    assert "manifest.json is damaged: no valid JSON" in refused(saved).found


def test_a_truncated_manifest_is_damaged(saved: Path) -> None:
    whole = (saved / "manifest.json").read_bytes()
    (saved / "manifest.json").write_bytes(whole[: len(whole) // 2])
    assert "no valid JSON" in refused(saved).found


def test_an_edited_manifest_is_noticed(saved: Path) -> None:
    rewrite(saved, lambda data: data["calls"][0].update(replay_error=0.5))
    assert "its checksum does not match" in refused(saved).found


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda data: data.pop("calls"), "calls"),
        (lambda data: data["calls"][0].pop("module"), "without module amiss"),
        (lambda data: data["calls"][0].update(index="0"), "index should be a value of type int"),
        (lambda data: data["calls"][0].update(strange=1), "without strange amiss"),
        (lambda data: data.update(version="1"), "version should be a value of type int"),
        (lambda data: data.update(notes=[1]), "notes[0] should be a value of type str"),
    ],
    ids=["no-calls", "no-module", "index", "strange", "version", "note"],
)
def test_a_manifest_of_another_structure_is_damaged(
    saved: Path, change: Callable[[dict[str, Any]], object], found: str
) -> None:
    rewrite(saved, change, sign=True)
    error = refused(saved)
    assert "manifest.json is damaged" in error.found
    assert found in error.found


def test_a_damaged_recipe_or_sheet_is_noticed_when_it_is_read(saved: Path) -> None:
    rewrite(saved, lambda data: data["calls"][0].update(recipe={}, shapes=[{}]), sign=True)
    call = attnscope.load(saved)[0]
    with pytest.raises(StoreError, match="without scale amiss"):
        _ = call.recipe
    with pytest.raises(StoreError, match=r"manifest\.json is damaged"):
        call.shapes()


def test_a_missing_file_of_tensors_is_named(saved: Path) -> None:
    tensor_file(saved).unlink()
    error = refused(saved)
    assert "tensors-00000.safetensors is damaged: No such file" in error.found


@pytest.mark.parametrize("keep", [0, 4, 200, -1])
def test_a_truncated_file_of_tensors_is_noticed(saved: Path, keep: int) -> None:
    path = tensor_file(saved)
    size = path.stat().st_size
    path.write_bytes(path.read_bytes()[:keep])
    assert f"bytes instead of {size}" in refused(saved).found


def test_a_file_of_other_bytes_is_noticed(saved: Path) -> None:
    path = tensor_file(saved)
    path.write_bytes(bytes(path.stat().st_size))
    assert "tensors-00000.safetensors is damaged" in refused(saved).found


def test_a_file_without_a_tensor_is_noticed(saved: Path) -> None:
    rewrite(
        saved,
        lambda data: data["tensors"].update(x={"file": "tensors-00000.safetensors", "shape": [3]}),
        sign=True,
    )
    assert "tensor x with shape [3] is not in it" in refused(saved).found


def test_a_file_outside_the_folder_is_not_read(saved: Path) -> None:
    outside = saved.parent / "outside.safetensors"
    tensor_file(saved).rename(outside)
    size = outside.stat().st_size
    rewrite(saved, lambda data: data.update(files={"../outside.safetensors": size}), sign=True)
    assert "is damaged" in refused(saved).found


def test_flipped_bits_of_a_tensor_are_noticed_when_it_is_read(saved: Path) -> None:
    path = tensor_file(saved)
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    call = attnscope.load(saved)[0]
    with pytest.raises(StoreError, match=r"the checksum of tensor .* does not match"):
        [call.evidence.value(name) for name in ("q", "k", "v", "context")]


def test_a_file_that_shrinks_after_loading_is_noticed(saved: Path) -> None:
    call = attnscope.load(saved)[0]
    os.truncate(tensor_file(saved), 100)
    with pytest.raises(StoreError, match="it has 100 bytes instead of"):
        _ = call.q


def test_a_damaged_output_is_noticed(saved: Path) -> None:
    rewrite(saved, lambda data: data.update(output={"pickle": "…"}), sign=True)
    loaded = attnscope.load(saved)
    with pytest.raises(StoreError, match="an output of kind 'pickle'"):
        _ = loaded.output
