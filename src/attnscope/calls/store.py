"""Traces on disk: a folder with a manifest and safetensors files, written whole or not at all.

``manifest.json`` holds everything but the tensors as plain JSON (its rules: `calls/encoding.py`)
and names each tensor by its content, so that one that many calls share is stored once. It carries
its own checksum; each tensor's name is one. No file can run code.

What a loaded call shows is what the saved one showed: q, k, v, context and their gradients, the
numbers and the replay error are the same bits. Scores and weights are the same bits where the
recipe does not give them, and where it does they are derived again, equal up to the rounding of
float32 or float64 (see `calls/packing.py`).
"""

from __future__ import annotations

import hashlib
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch

from attnscope.calls.blobs import Blob, TensorReader, TensorWriter
from attnscope.calls.call import Call
from attnscope.calls.encoding import decode, encode
from attnscope.calls.folder import replaced, write_durably
from attnscope.calls.output import pack_output, unpack_output
from attnscope.calls.packing import pack
from attnscope.calls.stored import CallRecord, StoredEvidence
from attnscope.calls.trace import Other, Trace, Unseen
from attnscope.errors import StoreError

__all__ = ["FORMAT", "MANIFEST", "VERSION", "load", "save"]

FORMAT = "attnscope.trace-store"
VERSION = 1
MANIFEST = "manifest.json"


@dataclass(frozen=True, slots=True)
class _Manifest:
    """The members of ``manifest.json``; files: their sizes in bytes; output: see `output`."""

    format: Literal["attnscope.trace-store"]
    version: int
    attnscope: str
    torch: str
    files: dict[str, int]
    tensors: dict[str, Blob]
    calls: tuple[CallRecord, ...]
    unseen: tuple[Unseen, ...]
    others: tuple[Other, ...]
    notes: tuple[str, ...]
    output: Any


class StoredTrace(Trace):
    """A trace on disk; its tensors, the model's output included, are read when asked for."""

    def __init__(self, manifest: _Manifest, reader: TensorReader) -> None:
        """Make the calls that `manifest` lists, their tensors to come from `reader`."""
        self._packed: Any = manifest.output
        self._reader = reader
        calls = [_call(record, reader) for record in manifest.calls]
        self.calls, self.notes = calls, list(manifest.notes)
        self.unseen, self.others = list(manifest.unseen), list(manifest.others)

    @property
    def output(self) -> Any:
        """What the model returned; None where that could not be stored (then a note says so)."""
        if self._packed is not None:
            try:
                self._output = unpack_output(self._packed, self._reader)
            except (ValueError, TypeError) as error:
                raise _damaged(self._reader.folder, str(error)) from error
            self._packed = None
        return self._output

    @output.setter
    def output(self, output: Any) -> None:
        self._packed, self._output = None, output


def save(trace: Trace, path: Path, *, overwrite: bool = False) -> None:
    """Write `trace` to the new folder `path`.

    The folder is written beside it under a hidden name and renamed when it is complete and on the
    disk. A process that is killed meanwhile leaves only that hidden ``.NAME.….partial`` folder.

    Args:
        trace: what to write. Gradients are stored where a backward has reached a call.
        path: a folder that does not exist, in one that does; ``~`` is the home folder.
        overwrite: replace the trace that is at `path`. It stays as it is if writing fails.

    Raises:
        StoreError: `path` exists (or, with `overwrite`, is no stored trace), its parent folder
            does not, or it can't be written.
    """
    with replaced(path.expanduser(), MANIFEST, FORMAT, overwrite=overwrite) as folder:
        writer = TensorWriter(folder)
        notes = list(trace.notes)
        output = pack_output(trace.output, writer, notes.append)
        calls = tuple(pack(call, writer) for call in trace)
        writer.flush()
        manifest = _Manifest(
            format="attnscope.trace-store",
            version=VERSION,
            attnscope=_own_version(),
            torch=str(torch.__version__),
            files=writer.files,
            tensors=writer.blobs,
            calls=calls,
            unseen=tuple(trace.unseen),
            others=tuple(trace.others),
            notes=tuple(dict.fromkeys(notes)),
            output=output,
        )
        data = encode(manifest)
        text = json.dumps({**data, "checksum": _checksum(data)}, allow_nan=False, indent=1)
        write_durably(folder / MANIFEST, text.encode())


def load(path: str | Path) -> Trace:
    """Read the trace in the folder `path`; its tensors are read when they are asked for.

    Raises:
        StoreError: there is no trace, it is of a newer version, or a file is missing or damaged.
            A tensor's own bytes are checked when it is read.
    """
    folder = Path(path).expanduser().absolute()
    manifest = _read_manifest(folder)
    reader = TensorReader(folder, manifest.files, manifest.tensors)
    reader.check()
    return StoredTrace(manifest, reader)


def _call(record: CallRecord, reader: TensorReader) -> Call:
    return Call(
        index=record.index,
        module=record.module,
        source=record.source,
        kind=record.kind,
        evidence=StoredEvidence(record, reader),
        step=record.step,
        recomputed=record.recomputed,
    )


def _read_manifest(folder: Path) -> _Manifest:
    if not folder.is_dir():
        found = "it is a file, not a folder" if folder.exists() else "there is no such folder"
        raise _no_trace(folder, found)
    if not (folder / MANIFEST).is_file():
        raise _no_trace(folder, f"the folder has no {MANIFEST}")
    try:
        data = json.loads((folder / MANIFEST).read_bytes(), parse_constant=_refuse_constant)
    except OSError as error:
        raise _damaged(folder, error.strerror or str(error)) from error
    except ValueError as error:
        raise _damaged(folder, f"no valid JSON ({error})") from error
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise _no_trace(folder, f"its {MANIFEST} is not one of format {FORMAT}")
    version = data.get("version")
    if isinstance(version, int) and version > VERSION:
        raise StoreError(
            f"reading the trace {folder}",
            f"it is of version {version}, this attnscope reads up to version {VERSION}",
            "upgrade attnscope: pip install --upgrade attnscope "
            f"(it was written by {data.get('attnscope', 'a newer one')})",
        )
    if data.pop("checksum", None) != _checksum(data):
        raise _damaged(folder, "its checksum does not match")
    try:
        return decode(_Manifest, data)
    except ValueError as error:
        raise _damaged(folder, str(error)) from error


def _checksum(data: dict[str, Any]) -> str:
    """Return SHA-256 of everything in a manifest but the checksum itself."""
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON number")


def _no_trace(folder: Path, found: str) -> StoreError:
    return StoreError(
        f"reading the trace {folder}", found, "name a folder that trace.save(path) has written"
    )


def _damaged(folder: Path, found: str) -> StoreError:
    return StoreError(
        f"reading the trace {folder}",
        f"{MANIFEST} is damaged: {found}",
        "copy the folder again from where it came, or trace the model and save again",
    )


def _own_version() -> str:
    return str(sys.modules["attnscope"].__version__)  # the package itself, which stands above
