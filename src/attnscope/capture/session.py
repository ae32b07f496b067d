"""A recording: what is put in place around a model's run, what is found, what is put back."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from attnscope.calls.call import Call
from attnscope.calls.source import Source
from attnscope.calls.trace import Trace, Unseen
from attnscope.capture.adapters import ADAPTERS
from attnscope.capture.functions import Kind
from attnscope.capture.fused import fused_evidence
from attnscope.capture.gradients import Cotangent
from attnscope.capture.interceptor import Handler, Interceptor
from attnscope.capture.kernel import Adapter, KernelCall
from attnscope.capture.keeping import Keep, keep_only
from attnscope.capture.place import Place, find_place
from attnscope.capture.provenance import Node, to_chain
from attnscope.capture.reading.axes import AxesReading, product_of, read_axes
from attnscope.capture.recorded import Product, RecordedEvidence
from attnscope.capture.recorder import Found, Recorder
from attnscope.capture.softmaxes import Softmaxes
from attnscope.capture.torchnn import opened, patched_modules
from attnscope.errors import InputError

KeepName = Literal["all", "qkv", "numbers"]


@dataclass(frozen=True, slots=True)
class Options:
    """What a recording keeps: how much of each call, of which modules, on which device."""

    keep: KeepName = "qkv"
    modules: Collection[str] | None = None
    device: torch.device | None = None

    def __post_init__(self) -> None:
        """Refuse a `keep` that means nothing."""
        if self.keep not in ("all", "qkv", "numbers"):
            raise InputError(
                doing="starting a recording",
                found=f"keep={self.keep!r}",
                todo='use keep="all", "qkv" or "numbers"',
            )

    def wants(self, module: str) -> bool:
        """Return whether calls of `module` are recorded."""
        if self.modules is None:
            return True
        return any(module == one or module.startswith(f"{one}.") for one in self.modules)


class Session:
    """Turns what the recorder notices into the calls of one trace."""

    def __init__(self, root: nn.Module | None, options: Options) -> None:
        """Prepare to record runs of `root`."""
        self.trace = Trace()
        self.root = root
        self.options = options
        self.names = _module_names(root)
        self.softmaxes = Softmaxes()
        self.recorder = Recorder(
            _parameter_names(root),
            self._attention,
            self._product,
            keep_outputs=options.keep == "all",
        )
        self._cotangents: list[Cotangent] = []
        self._by_weights: dict[int, Call] = {}
        self._step = -1
        self._last_root: object = None
        self._unresolved: list[tuple[Node, Place]] = []
        self._keep = Keep(options.keep, options.device)

    # -- what the recorder notices --------------------------------------------------------------

    def _attention(self, found: Found) -> bool:
        place = find_place(self.root)
        if self._joins(found, place):
            return True
        chain = to_chain([found.weights.node, found.node])
        best = _best_start(chain, found)
        if best is None:
            return False
        start, axes = best
        self.softmaxes.claim(chain.nodes)
        module = self.name_of(place)
        if not self.options.wants(module):
            return True
        evidence = RecordedEvidence(start, found.weights, axes)
        evidence.products.append(self._product_with(found))
        call = self._call(module, place, "eager", evidence)
        self._by_weights[id(found.weights.node)] = call
        keep_only(call, self._keep)
        return True

    def _product_with(self, found: Found) -> Product:
        cotangent = self._watch(found.output)
        held = self.recorder.registry.hold(found.output)
        return Product(found.node, found.value, held, cotangent)

    def _joins(self, found: Found, place: Place) -> bool:
        """Add a further product with the same weights to the call that it belongs to."""
        call = self._by_weights.get(id(found.weights.node))
        if call is None or not isinstance(call.evidence, RecordedEvidence):
            return False
        if call.evidence.weights.node is not found.weights.node:
            return False
        if call.module != self.name_of(place):
            return False
        call.evidence.products.append(self._product_with(found))
        call.evidence.__dict__.pop("chain", None)
        return True

    def _product(self, node: Node) -> None:
        if node.fed:
            self._unresolved.append((node, find_place(self.root)))

    def _kernel(self, adapter: Adapter) -> Handler:
        def handle(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:  # noqa: ANN401
            output = function(*args, **kwargs)
            place = find_place(self.root)
            module = self.name_of(place)
            if self.options.wants(module):
                for kernel in adapter.read(function, args, kwargs, output):
                    self._fused(kernel, module, place)
            return output

        return handle

    def _fused(self, kernel: KernelCall, module: str, place: Place) -> None:
        operands = [self.recorder.operand(tensor) for tensor in (kernel.q, kernel.k, kernel.v)]
        output = self.recorder.registry.hold(kernel.output)
        evidence = fused_evidence(kernel, *operands, output, self._watch(kernel.output))
        call = self._call(module, place, kernel.kind, evidence)
        keep_only(call, self._keep)

    def _opening(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:  # noqa: ANN401
        with self.interceptor:
            return opened(function)(*args, **kwargs)

    def _call(self, module: str, place: Place, kind: str, evidence: Any) -> Call:  # noqa: ANN401
        call = Call(
            index=len(self.trace.calls),
            module=module,
            source=place.source,
            kind=kind,
            evidence=evidence,
            step=self._step_of(place),
            recomputed=torch._C._current_graph_task_id() != -1,  # noqa: SLF001
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
            function: self._kernel(adapter) for adapter in ADAPTERS for function in adapter.functions()
        }
        handlers[torch.nn.functional.multi_head_attention_forward] = self._opening
        self.interceptor = Interceptor(self.recorder.run, handlers)
        try:
            with contextlib.ExitStack() as stack:
                stack.enter_context(_opened_compiled())
                stack.enter_context(patched_modules())
                stack.enter_context(self.interceptor)
                yield self.trace
        finally:
            self._finish()

    def _finish(self) -> None:
        for cotangent in self._cotangents:
            cotangent.release()
        self._cotangents.clear()
        self.trace.unseen.extend(_scripted(self.root))
        self._last_root = None
        self.recorder.registry.clear()
        self._unresolved.clear()


def _best_start(chain: Any, found: Found) -> tuple[Node, AxesReading] | None:  # noqa: ANN401
    """Return the product that is q·k, with its axes; None where there is no attention."""
    best: tuple[tuple[bool, bool, int], Node, AxesReading] | None = None
    for node in chain.nodes:
        if not node.starts or node.product or node.left is None or node.right is None:
            continue
        axes = read_axes(
            chain, node, found.weights, found.value, found.node, weights_left=found.weights_left
        )
        if axes is None:
            continue
        product = product_of(node)
        free = product.right if axes.keys_left else product.left if product else ()
        key = node.left if axes.keys_left else node.right
        if key.weight:
            continue
        size = 1
        for extent in key.held.shape:
            size *= extent
        rank = (bool(free) or axes.sizes.queries == 1, not (node.left.weight or node.right.weight), size)
        if best is None or rank > best[0]:
            best = (rank, node, axes)
    return (best[1], best[2]) if best is not None else None


def _module_names(root: nn.Module | None) -> dict[int, str]:
    if root is None:
        return {}
    return {id(module): name for name, module in root.named_modules()}


def _parameter_names(root: nn.Module | None) -> dict[int, str]:
    if root is None:
        return {}
    named = dict(root.named_buffers(remove_duplicate=True))
    named.update(root.named_parameters(remove_duplicate=True))
    return {id(tensor): name for name, tensor in named.items()}


def _scripted(root: nn.Module | None) -> Iterator[Unseen]:
    if root is None:
        return
    for name, module in root.named_modules():
        if isinstance(module, torch.jit.ScriptModule) and not isinstance(
            module, torch.jit.TopLevelTracedModule if hasattr(torch.jit, "TopLevelTracedModule") else ()
        ):
            yield Unseen(name, "a scripted module: its inside runs without Python")


@contextlib.contextmanager
def _opened_compiled() -> Iterator[None]:
    """Let compiled regions run eagerly, so that their inside can be seen."""
    if "torch._dynamo" not in sys.modules and "torch.nn.attention.flex_attention" not in sys.modules:
        yield
        return
    with torch.compiler.set_stance("force_eager"):
        yield


__all__ = ["KeepName", "Options", "Session", "Source", "Kind"]
