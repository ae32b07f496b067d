"""The latest forward of a module, from which its call can be made when somebody asks.

A forward leaves references to its arguments, detached, and a few entries of its output. Asking for
the call runs the module again on them, recorded; that output has to be the same. Nothing of it is
part of the module's state: it is in no state dict, no pickle and no copy. It is left out while
PyTorch traces or compiles the module, maps it with `torch.func`, or hands it tensors of another
class.
"""

from __future__ import annotations

import copy
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Concatenate, ParamSpec, TypeVar

import torch
from torch import Tensor, nn

from attnscope.calls import Call, Source
from attnscope.calls.program import RandomState, drawing_from, random_state
from attnscope.calls.tolerance import replay
from attnscope.capture import trace
from attnscope.capture.modes import unobserved
from attnscope.errors import ReplayError
from attnscope.nn.cache import KeyValueCache
from attnscope.nn.restoring import PartsBefore
from attnscope.nn.witness import Witness, parameter_versions, versions

__all__ = ["LastCall", "keeps_its_own_forward", "remembered"]

P = ParamSpec("P")
R = TypeVar("R")

_DOING = "making the call of the latest forward"
_HOW = "by an optimizer, or in place"
_TODO = "ask for last_call before that, or record: with attnscope.record(module)"
_INPUTS = ("query", "key", "value")
_TYPES = (Tensor, nn.Parameter)
_PACKAGES = tuple(str(Path(file).parent) for file in (__file__, torch.__file__))
_HOOKS = (
    "_forward_hooks",
    "_forward_pre_hooks",
    "_forward_hooks_with_kwargs",
    "_forward_pre_hooks_with_kwargs",
    "_forward_hooks_always_called",
    "_backward_hooks",
    "_backward_pre_hooks",
)


class LastCall(nn.Module):
    """What a module with a `remembered` forward has beside it: `last_call`."""

    _kept: Kept | None = None

    def draws(self) -> bool:
        """Return whether a forward draws random numbers, as dropout does in training."""
        raise NotImplementedError

    @property
    def last_call(self) -> Call:
        """The call of the latest forward, made when it is asked for.

        A thread is told of its own latest forward, where it made one. The forward has left
        references to its arguments, which stay alive until the next one. It is run again on them in
        the same mode, precision and random state, recorded; a backward is seen by
        `attnscope.record` alone. A forward under `torch.compile` leaves nothing.

        The run has to give the output that the forward gave. It calls the parts of the module once
        more, and with them the forward hooks that were registered on them (those on the module
        itself are not called); their buffers and attributes are as before afterwards. For that a
        forward copies the buffers of parts in training, which batch norm and the like write to.

        Raises:
            ReplayError: there was no forward, or something it depends on was changed since:
                arguments, parameters, settings or parts.
        """
        last = self._last
        if last is None:
            raise ReplayError(
                _DOING,
                "no forward of this module, or one that was compiled, traced, mapped or failed",
                "call the module first, or record it: with attnscope.record(module)",
            )
        return last.call(self)

    @property
    def _last(self) -> Last | None:
        return None if self._kept is None else self._kept.last(self)

    def __dir__(self) -> list[str]:
        """Return all names but `last_call`: what reads all of them, as `torch.jit`, asks not."""
        names: list[str] = super().__dir__()  # type: ignore[no-untyped-call]
        return [name for name in names if name != "last_call"]

    def __getstate__(self) -> dict[str, Any]:
        """Return what copies and pickles carry: all but the latest forward."""
        return {name: value for name, value in self.__dict__.items() if name != "_kept"}


class Kept:
    """The latest forward of a module, and the latest of each thread that made one."""

    def __init__(self, module: LastCall) -> None:
        self._module = id(module)  # a replica has the same attributes, and is another module
        self._newest: tuple[int, Last | None] = (0, None)
        self._own = threading.local()

    def belongs_to(self, module: LastCall) -> bool:
        """Return whether it is the module's own."""
        return self._module == id(module)

    def keep(self, last: Last | None) -> None:
        """Keep the latest forward of this thread; None: it left nothing."""
        thread = threading.get_ident()
        self._own.last = last
        if last is not None or self._newest[0] == thread:
            self._newest = (thread, last)

    def last(self, module: LastCall) -> Last | None:
        """Return the latest forward of this thread, or of another where it made none."""
        if not self.belongs_to(module):
            return None
        last: Last | None = getattr(self._own, "last", self._newest[1])
        return last


M = TypeVar("M", bound=LastCall)


def remembered(forward: Callable[Concatenate[M, P], R]) -> Callable[Concatenate[M, P], R]:
    """Let a forward leave what it was called with, and a few entries of what it returned."""

    @wraps(forward)
    def run(module: M, /, *args: P.args, **kwargs: P.kwargs) -> R:
        if torch.compiler.is_compiling():
            module._kept = None  # noqa: SLF001  what it left is past
            return forward(module, *args, **kwargs)
        kept = module._kept  # noqa: SLF001
        if kept is None or not kept.belongs_to(module):
            kept = module.__dict__["_kept"] = Kept(module)
        last = None
        try:
            begun = Last.before(module, args, kwargs)
            result = forward(module, *args, **kwargs)
            last = None if begun is None else begun.after(module, kwargs, result)
        finally:
            kept.keep(last)
        return result

    return run


def keeps_its_own_forward(module: nn.Module, args: tuple[Any, ...]) -> None:
    """Do nothing, as a hook: `nn.TransformerEncoderLayer` calls a module that has one.

    In inference it would otherwise compute attention by itself, whatever parts the module has, and
    the module would neither be seen nor have a latest forward.
    """


@dataclass(slots=True, eq=False, repr=False)
class Last:
    """What a forward was called with, and in which state of the world.

    arguments, parameters: their versions before it; witness: by which changes are noticed.
    """

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    parts: PartsBefore
    grad: bool
    device: torch.device
    autocast: torch.dtype | None
    random: RandomState | None
    arguments: tuple[int, ...]
    parameters: tuple[tuple[int, int], ...]
    place: tuple[CodeType, int] | None
    length: int = 0
    witness: Witness | None = None
    made: Call | None = field(default=None)

    @classmethod
    def before(cls, module: LastCall, args: Any, kwargs: Any) -> Last | None:
        """Take note of a forward that is about to happen; None where it can't be kept."""
        inputs = [*args[:3], *(kwargs[name] for name in _INPUTS if name in kwargs)]
        tensors = [x for x in (*inputs, *args, *kwargs.values()) if isinstance(x, Tensor)]
        tensors.extend(module.parameters())
        if not tensors or any(_is_strange(x) for x in tensors) or _is_traced():
            return None
        device = tensors[0].device
        autocast = torch.is_autocast_enabled(device.type)
        cache = kwargs.get("cache")
        same: dict[int, Tensor] = {}  # q, k and v may be one tensor, and stay one
        with torch._C.DisableTorchFunction():  # noqa: SLF001  no recording takes note of it
            detached = tuple(_detached(x, same) for x in args)
            by_name = {name: _detached(x, same) for name, x in kwargs.items()}
            parts = PartsBefore.of(module)
        return cls(
            args=detached,
            kwargs=by_name,
            parts=parts,
            grad=torch.is_grad_enabled(),
            device=device,
            autocast=torch.get_autocast_dtype(device.type) if autocast else None,
            random=random_state(device) if module.draws() else None,
            arguments=versions((*detached, *by_name.values())),
            parameters=parameter_versions(module),
            place=_place(),
            length=cache.length if isinstance(cache, KeyValueCache) else 0,
        )

    def after(self, module: LastCall, kwargs: dict[str, Any], result: Any) -> Last:
        """Take note of what the forward left behind: the cache is wanted as it was before."""
        cache = kwargs.get("cache")
        with torch._C.DisableTorchFunction():  # noqa: SLF001  as above
            if isinstance(cache, KeyValueCache):
                self.kwargs["cache"] = cache.before(self.length)
            self.witness = Witness.of(module, self.arguments, self.parameters, result)
        return self

    def call(self, module: Any) -> Call:
        """Return the call of this forward, made by running it again once.

        Raises:
            ReplayError: something it depends on was changed since.
        """
        if self.made is None:
            self._require_unchanged(module)
            call = self._run(module)
            self._require_the_same_output(module, call)
            self.made = call
        return self.made

    def _run(self, module: Any) -> Call:
        with self._again(module) as (twin, kwargs):
            seen = trace(twin, *self.args, **kwargs)
        if len(seen) != 1:
            raise ReplayError(
                _DOING,
                f"{len(seen)} calls; {'; '.join(u.reason for u in seen.unseen) or 'none unseen'}",
                "record the module: with attnscope.record(module)",
            )
        call = seen[0]
        if self.place is not None:
            code, line = self.place
            call.source = Source(code.co_filename, line, code.co_qualname)
        return call

    @contextmanager
    def _again(self, module: Any) -> Iterator[tuple[Any, dict[str, Any]]]:
        """Have a twin of the module that shares all parameters and parts, in the world of then."""
        twin = object.__new__(type(module))
        twin.__dict__.update(module.__dict__)
        twin.__dict__.update({name: OrderedDict() for name in _HOOKS})
        twin.__dict__.update(_kept=None, _compiled_call_impl=None)
        kwargs = dict(self.kwargs)
        if isinstance(kwargs.get("cache"), KeyValueCache):
            kwargs["cache"] = copy.copy(kwargs["cache"])  # it grows in the run
        with ExitStack() as world:
            world.enter_context(unobserved())
            world.enter_context(torch.inference_mode(mode=False))
            world.enter_context(torch.set_grad_enabled(self.grad))
            world.enter_context(drawing_from(self.random))
            world.enter_context(
                torch.autocast(self.device.type, dtype=self.autocast, enabled=bool(self.autocast))
            )
            world.enter_context(self.parts.restored(twin))
            yield twin, kwargs

    def _require_unchanged(self, module: LastCall) -> None:
        assert self.witness is not None  # noqa: S101  what is kept has ended
        changed = self.witness.changed(module, (*self.args, *self.kwargs.values()))
        if changed is not None:
            raise ReplayError(_DOING, f"{changed} was changed since ({_HOW})", _TODO)

    def _require_the_same_output(self, module: LastCall, call: Call) -> None:
        """Run once more as the forward did, not recorded: PyTorch then takes the same path."""
        assert self.witness is not None  # noqa: S101  as above
        with self._again(module) as (twin, kwargs):
            result = twin(*self.args, **kwargs)
        bound = replay(result[0].dtype, call.keys, call.head_dim)
        if not self.witness.agrees(result, bound):
            raise ReplayError(
                _DOING,
                "another output than that of the forward: something it depends on was changed"
                " since, where no version counter tells of it",
                _TODO,
            )


def _is_strange(tensor: Tensor) -> bool:
    functorch = torch._C._functorch  # noqa: SLF001  no public way to ask
    return (
        type(tensor) not in _TYPES
        or tensor.is_meta
        or functorch.is_functorch_wrapped_tensor(tensor)
    )


def _is_traced() -> bool:
    return torch._C._get_tracing_state() is not None  # noqa: SLF001  no public way to ask


def _detached(value: Any, same: dict[int, Tensor]) -> Any:
    if not isinstance(value, Tensor) or not value.requires_grad:
        return value
    if id(value) not in same:
        same[id(value)] = value.detach().requires_grad_()  # kernels ask for it
    return same[id(value)]


def _place() -> tuple[CodeType, int] | None:
    """Return the nearest line outside this room and PyTorch, by its code: no frame is kept."""
    frame: FrameType | None = sys._getframe(2)  # noqa: SLF001  reading a whole stack costs more
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGES):
        frame = frame.f_back
    return None if frame is None else (frame.f_code, frame.f_lineno)
