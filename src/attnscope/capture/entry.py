"""The two ways in: `trace` runs a model once, `record` goes around code of the user's own."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator
from typing import Any

import torch
from torch import nn

from attnscope.calls.trace import Trace
from attnscope.capture.session import KeepName, Options, Session
from attnscope.errors import InputError


@contextlib.contextmanager
def record(
    model: nn.Module | Callable[..., Any] | None = None,
    *,
    keep: KeepName = "qkv",
    modules: Collection[str] | None = None,
    device: torch.device | str | None = None,
) -> Iterator[Trace]:
    """Record every attention call made inside the `with` block, in this thread.

    The model runs as it would without: outputs, gradients, random state and modes are the same,
    bit for bit.

    Args:
        model: names the modules and parameters; None or a plain function: names are class names.
        keep: "qkv" keeps q, k, v, context and what the recipe needs (scores and weights are
            derived when asked for); "all" also what the model itself makes between q·k and v;
            "numbers" per-head numbers and the replay error alone, worked out at each call.
        modules: record only calls of these module paths and what is below them.
        device: move what is kept there, such as "cpu"; None: keep references, copy nothing.

    Example:
        >>> import torch, attnscope
        >>> mha = torch.nn.MultiheadAttention(32, 4, batch_first=True)
        >>> x = torch.randn(2, 7, 32)
        >>> with attnscope.record(mha) as trace:
        ...     loss = mha(x, x, x)[0].sum()
        ...     loss.backward()
        >>> trace[0].grad("q").shape
        torch.Size([2, 4, 7, 8])
    """
    root = model if isinstance(model, nn.Module) else None
    chosen = _device(device) if device is not None else None
    session = Session(root, Options(keep, modules, chosen))
    with session.recording() as trace_:
        yield trace_


def _device(device: torch.device | str) -> torch.device:
    try:
        return torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise InputError(
            doing="starting a recording",
            found=f"device={device!r}",
            todo='name a device of PyTorch, such as "cpu"',
        ) from error


def trace(
    model: nn.Module | Callable[..., Any],
    /,
    *args: Any,
    keep: KeepName = "qkv",
    modules: Collection[str] | None = None,
    device: torch.device | str | None = None,
    **kwargs: Any,
) -> Trace:
    """Run `model(*args, **kwargs)` once and return what was seen; its output is `trace.output`.

    Args:
        model: any module or function. It is run as it is: in its own mode, with gradients on or
            off as the caller has them.
        *args: handed to the model.
        keep: as for `record`. An argument of the model called `keep`, `modules` or `device` has
            to be given inside `record` instead.
        modules: as for `record`.
        device: as for `record`.
        **kwargs: handed to the model.

    Example:
        >>> import torch, attnscope
        >>> encoder = torch.nn.TransformerEncoderLayer(32, 4, batch_first=True).eval()
        >>> trace = attnscope.trace(encoder, torch.randn(2, 7, 32))
        >>> trace[0].weights().shape
        torch.Size([2, 4, 7, 7])
    """
    with record(model, keep=keep, modules=modules, device=device) as trace_:
        output = model(*args, **kwargs)
    trace_.output = output
    return trace_
