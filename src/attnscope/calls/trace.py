"""The calls of one run of a model, in order, and what could not be looked into."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, overload

from attnscope.calls.call import Call
from attnscope.calls.source import Source
from attnscope.calls.walk import Walk, walk
from attnscope.errors import InputError


@dataclass(frozen=True, slots=True)
class Unseen:
    """A region that could hold attention and could not be looked into, with the reason."""

    module: str
    reason: str

    def to_json(self) -> dict[str, str]:
        """Return the fields that the JSON formats carry."""
        return {"module": self.module, "reason": self.reason}


@dataclass(frozen=True, slots=True)
class Other:
    """A softmax that is not attention: a router, gate, pooling or classifier, named by `role`."""

    module: str
    source: Source
    role: str
    reason: str


@dataclass(eq=False)
class Trace:
    """The attention calls of one run.

    output: what the model returned, bit for bit as without attnscope (None inside `record`).
    """

    calls: list[Call] = field(default_factory=list)
    output: Any = None
    unseen: list[Unseen] = field(default_factory=list)
    others: list[Other] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        """Return the number of calls."""
        return len(self.calls)

    def __iter__(self) -> Iterator[Call]:
        """Iterate over the calls in order."""
        return iter(self.calls)

    @overload
    def __getitem__(self, key: int | str) -> Call: ...
    @overload
    def __getitem__(self, key: slice) -> list[Call]: ...
    def __getitem__(self, key: int | str | slice) -> Call | list[Call]:
        """Return a call by position, or the one call of a module path or of what is below it."""
        if isinstance(key, str):
            return self._only(key)
        if not isinstance(key, (int, slice)):
            raise InputError(
                doing="looking up a call",
                found=f"{key!r} of type {type(key).__name__}",
                todo="use an index, a slice, or the path of a module",
            )
        if isinstance(key, int) and not -len(self.calls) <= key < len(self.calls):
            raise InputError(
                doing="looking up a call",
                found=f"index {key}; the trace has {len(self.calls)} calls",
                todo="use an index from 0 to len(trace) - 1",
            )
        return self.calls[key]

    def _only(self, path: str) -> Call:
        found = [call for call in self.calls if call.module == path] or self.select(module=path)
        if len(found) == 1:
            return found[0]
        if found:
            raise InputError(
                doing=f"looking up the call of {path!r}",
                found=f"{len(found)} calls: {_some(call.index for call in found)}",
                todo=f"use trace.select(module={path!r}), which returns all of them, or an index",
            )
        raise InputError(
            doing=f"looking up the call of {path!r}",
            found=f"no call there; calls are in {_some(dict.fromkeys(c.module for c in self))}",
            todo="use one of these module paths, or a prefix of one",
        )

    def select(
        self, *, module: str | None = None, kind: str | None = None, step: int | None = None
    ) -> list[Call]:
        """Return the calls in `module` or below it, of this kind, in this forward pass."""
        return [
            call
            for call in self.calls
            if (
                module is None
                or module in ("", call.module)
                or call.module.startswith(f"{module}.")
            )
            and kind in (None, call.kind)
            and step in (None, call.step)
        ]

    def walk(self, call: int | str | Call, head: int, query: int, *, batch: int = 0) -> Walk:
        """Follow one query through one head with real numbers: dot products to weighted sum."""
        return walk(call if isinstance(call, Call) else self[call], head, query, batch=batch)

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write the trace to a new folder (manifest and safetensors), whole or not at all.

        overwrite: replace the trace that is there; the old one stays until the new one is complete.
        """
        from attnscope.calls.store import save

        save(self, Path(path), overwrite=overwrite)

    def __repr__(self) -> str:
        """Return one line with what was seen."""
        return f"Trace({len(self.calls)} calls, {len(self.unseen)} unseen regions)"


def _some(items: Any, most: int = 8) -> str:
    texts = [str(item) for item in items]
    more = f", … ({len(texts) - most} more)" if len(texts) > most else ""
    return ", ".join(texts[:most]) + more if texts else "no module"
