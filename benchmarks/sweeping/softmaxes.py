"""Counts softmaxes below attnscope, as PyTorch dispatches them, and compares the accounts."""

from __future__ import annotations

import linecache
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from attnscope.calls.call import Call
from attnscope.calls.source import Source
from attnscope.calls.trace import Trace

_OPERATIONS = frozenset({"_softmax", "_log_softmax", "_safe_softmax", "_sparse_softmax"})
_FUSED = (
    "_scaled_dot_product_",
    "_native_multi_head_attention",
    "_transformer_encoder_layer_fwd",
    "_flash_attention_forward",
    "_efficient_attention_forward",
)
_NOT_THE_MODEL = (str(Path(torch.__file__).resolve().parent), str(Path(__file__).resolve().parent))

Line = tuple[str, int]


class SoftmaxCount(TorchDispatchMode):
    """Counts softmaxes and fused attentions by the line that asked for them."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.lines: Counter[Line] = Counter()

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Run `func` and count it."""
        name = str(getattr(func, "__name__", "")).partition(".")[0]
        if name in _OPERATIONS or (name.startswith(_FUSED) and "backward" not in name):
            self.lines[_asking_line()] += 1
        return func(*args, **(kwargs or {}))


def accounted(trace: Trace) -> Counter[Line]:
    """Return how many softmaxes the trace accounts for at each line, calls and others."""
    once = {key: line for call in trace for key, line in softmaxes_of(call).items()}
    return Counter([*once.values(), *(_line(other.source) for other in trace.others)])


def disputed(trace: Trace) -> Counter[Line]:
    """Return the lines whose softmax is attention in one place and something else in another."""
    attention = {line for call in trace for line in softmaxes_of(call).values()}
    others = Counter(_line(other.source) for other in trace.others)
    return Counter({line: count for line, count in others.items() if line in attention})


def softmaxes_of(call: Call) -> dict[int, Line]:
    """Return the softmaxes inside a call, by identity, with their lines; a fused call is one."""
    chain = getattr(call.evidence, "chain", None)
    if chain is None:
        return {id(call): _line(call.source)}
    return {id(node): _line(node.source) for node in chain.nodes if "softmax" in node.name}


def code_at(line: Line) -> str:
    """Return the text of a line of source code."""
    return linecache.getline(*line).strip()


def _line(source: Source) -> Line:
    return source.file, source.line


def _asking_line() -> Line:
    frame = sys._getframe(2)  # noqa: SLF001  there is no other way to read the stack cheaply
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_NOT_THE_MODEL):
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno
