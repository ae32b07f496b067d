"""Running a target under the recorder: forward, generation, or forward and backward."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

import attnscope
from attnscope.calls import Call, Trace
from attnscope.capture.session import KeepName
from attnscope.errors import AttnscopeError, TargetError
from attnscope.targets import Target, importing_from, place
from attnscope.targets.blame import describe


@dataclass(frozen=True, slots=True)
class Run:
    """A target, the trace of its run, and the token ids that it generated, if any."""

    target: Target
    trace: Trace
    generated: Tensor | None = None

    def key_tokens(self, call: Call, row: int = 0) -> tuple[str, ...] | None:
        """Return a label for each key of a call, or None where keys have no words."""
        exact = self._exact(call, call.keys, row)
        if exact is not None:
            return exact
        written = self._written(call, row)
        return written[: call.keys] if written and call.keys <= len(written) else None

    def query_tokens(self, call: Call, row: int = 0) -> tuple[str, ...] | None:
        """Return a label for each query of a call, or None where queries have no words."""
        if call.queries == call.keys:
            return self.key_tokens(call, row)
        exact = self._exact(call, call.queries, row)
        if exact is not None:
            return exact
        written = self._written(call, row)
        if written and call.queries < call.keys <= len(written):
            return written[call.keys - call.queries : call.keys]
        return None

    def _exact(self, call: Call, length: int, row: int) -> tuple[str, ...] | None:
        ids = self.target.kwargs.get("input_ids")
        if not isinstance(ids, Tensor) or ids.shape[0] != call.batch:
            return None
        return self.target.tokens(length=length, row=row)

    def _written(self, call: Call, row: int) -> tuple[str, ...] | None:
        if self.generated is None or self.generated.shape[0] != call.batch:
            return None
        return self.target.tokens({"input_ids": self.generated}, row=row)


def run(target: Target, *, keep: KeepName, generate: int | None, backward: bool) -> Run:
    """Run the target once and return what was seen.

    Args:
        target: the model and its inputs.
        keep: what is kept of each call.
        generate: number of tokens to generate; None runs one forward.
        backward: run a backward on the sum of all float outputs, too.

    Raises:
        TargetError: the model raised (with the line, and the calls seen until then), or can't do
            what was asked.
    """
    doing = f"running {target.name}"
    if generate is not None and not _generates(target.model):
        raise TargetError(
            doing,
            f"{type(target.model).__name__} can't generate",
            "leave out --generate, or give a checkpoint of a language model",
        )
    trace: Trace | None = None
    generated: Tensor | None = None
    try:
        with importing_from(target.folder), attnscope.record(target.model, keep=keep) as trace:
            if generate is not None:
                generated = _generate(target, generate)
            else:
                with torch.set_grad_enabled(backward or not _is_flex(target.model)):
                    output = target.model(*target.args, **target.kwargs)
                if backward:
                    _backward(output, doing)
    except AttnscopeError:
        raise
    except (Exception, SystemExit) as error:
        where = place(error, target.folder)
        found = f"{describe(error)}{f' at {where}' if where else ''} ({_seen(trace)})"
        raise TargetError(
            doing, found, "mend that line, or give other inputs with --inputs"
        ) from error
    return Run(target, trace, generated)


def _seen(trace: Trace | None) -> str:
    if trace is None or not len(trace):
        return "no attention call before it"
    last = trace[-1]
    count = "1 attention call" if len(trace) == 1 else f"{len(trace)} attention calls"
    return f"{count} before it, the last in {last.module or 'the model itself'} at {last.source}"


def _is_flex(model: Any) -> bool:
    """Return whether a model uses FlexAttention, which PyTorch runs without gradients on a CPU."""
    config = getattr(model, "config", None)
    return getattr(config, "_attn_implementation", None) == "flex_attention"


def _generates(model: Any) -> bool:
    can = getattr(model, "can_generate", None)
    return callable(getattr(model, "generate", None)) and (can is None or bool(can()))


def _generate(target: Target, count: int) -> Tensor:
    """Return the token ids, the given ones included, after greedy generation of `count` more."""
    model: Any = target.model
    tokenizer = target.tokenizer
    extra = {} if tokenizer is None else {"pad_token_id": tokenizer.pad_token_id}
    made = model.generate(
        **target.kwargs, max_new_tokens=count, min_new_tokens=count, do_sample=False, **extra
    )
    ids: Tensor = made if isinstance(made, Tensor) else made.sequences
    return ids


def _tensors(output: Any) -> Iterator[Tensor]:
    """Yield the tensors of an output: nested containers, and fields of any object."""
    for leaf in pytree.tree_leaves(output):
        if isinstance(leaf, Tensor):
            yield leaf
        elif hasattr(leaf, "__dict__") and not callable(leaf):
            yield from _tensors(vars(leaf))


def _backward(output: Any, doing: str) -> None:
    """Run a backward on the sum of all outputs that depend on something trainable."""
    leaves = list(_tensors(output))
    reached = [leaf for leaf in leaves if leaf.requires_grad and leaf.is_floating_point()]
    if not reached:
        raise TargetError(
            doing,
            "no output depends on a parameter that requires a gradient",
            "leave out --backward, or let the model return what it computes with gradients",
        )
    torch.stack([leaf.float().sum() for leaf in reached]).sum().backward()
