"""A recording: what is put in place around a model's run, what is found, what is put back."""

from __future__ import annotations

import contextlib
import difflib
import linecache
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from attnscope.calls.call import Call
from attnscope.calls.held import storage_key
from attnscope.calls.program import RandomState, random_state
from attnscope.calls.trace import Trace, Unseen
from attnscope.capture.adapters import ADAPTERS, REBOUND
from attnscope.capture.chunked import ChunkedEvidence, is_open
from attnscope.capture.finding import Finder, behind
from attnscope.capture.found import Found, Outcome
from attnscope.capture.fused import fused_evidence
from attnscope.capture.gradients import Cotangent, is_batched
from attnscope.capture.interceptor import Handler, Interceptor, recording
from attnscope.capture.keeping import Keep, keep_only
from attnscope.capture.kernel import Adapter, KernelCall
from attnscope.capture.operands import tensors_in
from attnscope.capture.place import Place, find_place
from attnscope.capture.provenance import Node, Operand, ancestors
from attnscope.capture.rebinding import rebound
from attnscope.capture.recorded import Product, RecordedEvidence
from attnscope.capture.recorder import Recorder
from attnscope.capture.softmaxes import Softmax, Softmaxes
from attnscope.capture.stance import opened_compiled
from attnscope.capture.threads import noticed_threads
from attnscope.capture.torchnn import opened, patched_modules
from attnscope.capture.unseen import LinearProduct, linear, recurrent, scripted, unrecognised
from attnscope.capture.warned import warning_in_place
from attnscope.errors import InputError

_MAPPED = "attention inside torch.vmap: its tensors have hidden axes"

KeepName = Literal["all", "qkv", "numbers"]


@dataclass(frozen=True, slots=True)
class Options:
    """What a recording keeps: how much of each call, of which modules, on which device."""

    keep: KeepName = "qkv"
    modules: Collection[str] | None = None
    device: torch.device | None = None

    def __post_init__(self) -> None:
        """Refuse a `keep` that means nothing."""
        if self.keep not in get_args(KeepName):
            raise InputError(
                doing="starting a recording",
                found=f"keep={self.keep!r}",
                todo='use keep="all", "qkv" or "numbers"',
            )

    def wants(self, module: str) -> bool:
        """Return whether calls of `module` are recorded."""
        if self.modules is None:
            return True
        paths = [self.modules] if isinstance(self.modules, str) else self.modules
        return any(path in ("", module) or module.startswith(f"{path}.") for path in paths)


class Session:
    """Turns what the recorder notices into the calls of one trace."""

    def __init__(self, root: nn.Module | None, options: Options) -> None:
        """Prepare to record runs of `root`."""
        self.trace = Trace()
        self.root = root
        self.options = options
        self.names = _module_names(root)
        _check_modules(options.modules, self.names.values() if root is not None else None)
        self.softmaxes = Softmaxes()
        self.recorder = Recorder(
            _parameter_names(root),
            self._attention,
            self._close,
            self._product_of_products,
            self._softmax,
            self._fault,
            self._unread,
            keep_outputs=options.keep == "all",
        )
        self._cotangents: list[Cotangent] = []
        self._by_weights: dict[int, tuple[Call, tuple[int, ...]]] = {}
        self._finder = Finder()
        self._open: dict[int, Call] = {}
        self._step = -1
        self._last_root: object = None
        self._linear: list[LinearProduct] = []
        self._resolved: set[int] = set()
        self._keep = Keep(options.keep, options.device)

    # -- what the recorder notices --------------------------------------------------------------

    def _attention(self, found: Found) -> Outcome | None:
        place = find_place(self.root)
        if is_batched(found.output):
            self._name_unseen(place, _MAPPED)
            return Outcome()
        if self._joins(found, place):
            return Outcome()
        nodes = behind(found, chunked=bool(self._open))
        best = self._finder.find(nodes, found)
        if best is None:
            return None
        self.softmaxes.claim(nodes)
        self._resolved.update(node.sequence for node in nodes)
        module = self.name_of(place)
        if not self.options.wants(module):
            return Outcome()
        evidence = RecordedEvidence(*best, found.weights)
        evidence.products.append(self._product_with(found))
        call = self._call(module, place, "eager", evidence)
        self._by_weights[found.weights.node.sequence] = call, found.value.held.shape
        if is_open(nodes):
            self._open[found.node.sequence] = call
            return Outcome(found.node.sequence)
        keep_only(call, self._keep)
        return Outcome()

    def _close(self, node: Node, output: Tensor) -> bool:
        """Make one call of those that went over chunks of the keys."""
        calls = [self._open[number] for number in sorted(node.carries)]
        if len(calls) < 2:
            return False
        parts = [call.evidence for call in calls if isinstance(call.evidence, RecordedEvidence)]
        held = self.recorder.registry.hold(output)
        evidence = ChunkedEvidence(parts, node, held, self._watch(output))
        if not evidence.fits():
            return False
        calls[0].evidence = evidence
        for call in calls[1:]:
            self.trace.calls.remove(call)
        for index, call in enumerate(self.trace.calls):
            call.index = index
        for number in node.carries:
            del self._open[number]
        keep_only(calls[0], self._keep)
        return True

    def _product_with(self, found: Found) -> Product:
        cotangent = self._watch(found.output)
        held = self.recorder.registry.hold(found.output)
        return Product(found.node, found.value, held, cotangent, found.last)

    def _joins(self, found: Found, place: Place) -> bool:
        """Add a further product with the same weights to the call that it belongs to."""
        call, first = self._by_weights.get(found.weights.node.sequence, (None, ()))
        if call is None:
            return False
        if call.module != self.name_of(place) or _has_own_samples(found, first):
            return False
        if isinstance(call.evidence, RecordedEvidence):  # else its numbers alone are kept
            call.evidence.products.append(self._product_with(found))
            call.evidence.__dict__.pop("chain", None)
            keep_only(call, self._keep)
        return True

    def _product_of_products(self, node: Node) -> None:
        """Note a product that took another product's result without a normaliser between."""
        place = find_place(self.root)
        near = any(before.depth <= _NEAR for before in node.fed)
        if place.modules and near and not _iterates(node):
            layer = type(place.modules[0]).__name__
            fed = tuple(before.sequence for before in node.fed)
            self._linear.append(LinearProduct((node.sequence, *fed), self.name_of(place), layer))

    def _softmax(self, name: str, node: Node | None, added: bool) -> Softmax:  # noqa: FBT001  a callback
        place = find_place(self.root)
        own = (type(m) for m in place.modules if not type(m).__module__.startswith("torch.nn"))
        layer = next((kind.__name__ for kind in own), "")
        sequence, pooled = (node.sequence, node.pooled) if node is not None else (None, False)
        module = self.name_of(place)
        softmax = Softmax(name, module, layer, place.source, sequence, pooled, added)
        if not _is_recomputing():  # a checkpointed region may stop before it meets the values
            self.softmaxes.add(softmax)
        return softmax

    def _fault(self, name: str, error: Exception) -> None:
        """Say that an operation could not be followed; the model has run on undisturbed."""
        module, where = "", ""
        with contextlib.suppress(Exception):
            place = find_place(self.root)
            module, where = self.name_of(place), f" at {place.source}"
        reason = f"attnscope could not follow {name}{where}: {error!r}"
        if all(unseen.reason != reason for unseen in self.trace.unseen):
            self.trace.unseen.append(Unseen(module, reason))

    def _kernel(self, adapter: Adapter) -> Handler:
        def handle(
            function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
        ) -> Any:
            name = getattr(function, "__name__", type(function).__name__)
            random = None
            with self.recorder.barrier(name):
                device = next((t.device for t in tensors_in(args)), torch.device("cpu"))
                random = random_state(device)
            output = function(*args, **kwargs)
            with self.recorder.barrier(name):
                place = find_place(self.root)
                module = self.name_of(place)
                if any(map(is_batched, tensors_in(args))):
                    self._name_unseen(place, _MAPPED)
                elif self.options.wants(module):
                    self._kernels(
                        adapter.read(function, args, kwargs, output), module, place, random
                    )
            return output

        return handle

    def _name_unseen(self, place: Place, reason: str) -> None:
        unseen = Unseen(self.name_of(place), reason)
        if unseen not in self.trace.unseen:
            self.trace.unseen.append(unseen)

    def _unread(self, what: str) -> None:
        """Name an operation that is part of attention, or may be, and is not followed."""
        self._name_unseen(find_place(self.root), what)

    def _kernels(
        self,
        kernels: tuple[KernelCall, ...],
        module: str,
        place: Place,
        random: RandomState | None,
    ) -> None:
        if not kernels:
            self._name_unseen(place, f"a kernel call at {place.source} that could not be read")
        for kernel in kernels:
            drew = random if kernel.dropout else None
            self._fused(replace(kernel, random=drew), module, place)

    def _fused(self, kernel: KernelCall, module: str, place: Place) -> None:
        for held in kernel.held:
            self.recorder.registry.watch(held)
        operand = self.recorder.operand
        evidence = fused_evidence(
            kernel,
            q=operand(kernel.q),
            k=operand(kernel.k),
            v=operand(kernel.v),
            output=self.recorder.registry.hold(kernel.output),
            cotangent=self._watch(kernel.output),
        )
        call = self._call(module, place, kernel.kind, evidence)
        keep_only(call, self._keep)

    def _opening(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        with self.interceptor:
            return opened(function)(*args, **kwargs)

    def _call(self, module: str, place: Place, kind: str, evidence: Any) -> Call:
        call = Call(
            index=len(self.trace.calls),
            module=module,
            source=place.source,
            kind=kind,
            evidence=evidence,
            step=self._step_of(place),
            recomputed=_is_recomputing(),
        )
        self.trace.calls.append(call)
        return call

    def _watch(self, tensor: Tensor) -> Cotangent:
        cotangent = Cotangent(tensor)
        self._cotangents.append(cotangent)
        return cotangent

    # -- names ---------------------------------------------------------------------------------

    def name_of(self, place: Place) -> str:
        """Return the dotted path of the innermost module that the model's names know."""
        for module in place.modules:
            name = self.names.get(id(module))
            if name is not None:
                return name
        return type(place.modules[0]).__name__ if place.modules else ""

    def _step_of(self, place: Place) -> int:
        if place.root is None:
            return max(self._step, 0)
        if place.root is not self._last_root:
            self._last_root = place.root
            self._step += 1
        return self._step

    # -- the world around ----------------------------------------------------------------------

    @contextlib.contextmanager
    def recording(self) -> Iterator[Trace]:
        """Record everything that runs inside, in this thread."""
        handlers: dict[Callable[..., Any], Handler] = {
            function: self._kernel(adapter)
            for adapter in ADAPTERS
            for function in adapter.functions()
        }
        handlers[torch.nn.functional.multi_head_attention_forward] = self._opening
        linecache.checkcache()  # lines of files that were edited since they were last read
        self.interceptor = Interceptor(self.recorder.run, handlers)
        try:
            with contextlib.ExitStack() as stack:
                stack.enter_context(opened_compiled())
                stack.enter_context(patched_modules())
                stack.enter_context(rebound(f for a in REBOUND for f in a.functions()))
                stack.enter_context(warning_in_place())
                stack.enter_context(noticed_threads(self._unread))
                stack.enter_context(recording(self.interceptor))
                yield self.trace
        finally:
            self._finish()

    def _finish(self) -> None:
        for call in self._open.values():
            keep_only(call, self._keep)
        self._open.clear()
        for cotangent in self._cotangents:
            cotangent.release()
        self._cotangents.clear()
        self.trace.unseen.extend(scripted(self.root))
        self.trace.unseen.extend(linear(self._linear, self._resolved))
        self.trace.unseen.extend(recurrent(self.root, self.trace))
        self.trace.others.extend(self.softmaxes.others(self.options.wants))
        self.trace.unseen.extend(unrecognised(self.root, self.trace))
        self._last_root = None
        self.recorder.registry.clear()


_NEAR = 16
"""Operations between the two products of linear attention, at most; a residual stream has more."""


def _check_modules(wanted: Collection[str] | None, known: Iterable[str] | None) -> None:
    """Refuse a module path that the model does not have: nothing would be recorded for it."""
    if wanted is None or known is None:
        return
    names = set(known)
    for path in [wanted] if isinstance(wanted, str) else wanted:
        if path not in names:
            near = difflib.get_close_matches(path, names, n=3)
            raise InputError(
                doing=f"recording the module {path!r} alone",
                found="the model has no module of that path",
                todo=f"use one of its paths, such as {', '.join(near or sorted(names)[1:4])}",
            )


def _is_recomputing() -> bool:
    """Return whether a backward is under way."""
    return torch._C._current_graph_task_id() != -1  # noqa: SLF001  no public way to ask


def _iterates(node: Node) -> bool:
    """Return whether a matrix is multiplied with its own products (iterations, whitening)."""
    starts = [n for n in ancestors(node.fed) if n.left is not None and n.right is not None]
    before = {_memory(side) for n in starts for side in (n.left, n.right) if side is not None}
    own = [_memory(side) for side in (node.left, node.right) if side is not None]
    if len(set(own)) < len(own) or not before.isdisjoint(own):
        return True
    behind = [{id(n) for n in ancestors([fed]) if n.starts} for fed in node.fed]
    return len(behind) > 1 and behind[0] == behind[1]


def _memory(side: Operand) -> tuple[int, int]:
    """Return where the values of an operand lie; a transposed matrix lies where it lay before."""
    return storage_key(side.held.raw), side.held.raw.numel()


def _has_own_samples(found: Found, first: tuple[int, ...]) -> bool:
    """Return whether the further values are like the first ones, not a table all samples share."""
    return len(found.value.held.shape) == len(first) and found.value.held.shape[0] == first[0]


def _module_names(root: nn.Module | None) -> dict[int, str]:
    if root is None:
        return {}
    return {id(module): name for name, module in root.named_modules()}


def _parameter_names(root: nn.Module | None) -> dict[int, tuple[Tensor, str]]:
    """Return parameters and buffers with their names by identity; held, so that none is reused."""
    if root is None:
        return {}
    named = dict(root.named_buffers(remove_duplicate=True))
    named.update(root.named_parameters(remove_duplicate=True))
    return {id(tensor): (tensor, name) for name, tensor in named.items()}
