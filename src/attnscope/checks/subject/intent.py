"""What the author intends: as `expect` declares it, or as the code and the config say themselves."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from attnscope.checks.subject.code import own_classes, trees
from attnscope.checks.subject.given import Given
from attnscope.checks.subject.names import is_causal_name

__all__ = ["Intent", "causal_intent"]

_CAUSAL_CLASSES = ("causallm", "gpt", "autoregressive", "causal", "decoderonly", "languagemodel")
_BOTH_WAYS_CLASSES = ("maskedlm", "bert", "encoderonly", "bidirectional")


@dataclass(frozen=True, slots=True)
class Intent:
    """What is meant to be, what says so, and whether it was declared in `expect`."""

    value: Any
    why: str
    declared: bool = False


def causal_intent(run: Any, given: Given, expect: Mapping[str, Any]) -> Intent | None:
    """Return whether positions are meant to see earlier ones only; None: nothing says so.

    In an encoder-decoder it speaks of the decoder's own sequence.
    """
    if "causal" in expect:
        return Intent(bool(expect["causal"]), "expect declares it", declared=True)
    for name, value in given.values.items():
        if is_causal_name(name) and isinstance(value, bool):
            return Intent(value, f"the input {name} is {value}")
    return next(iter(_said(run)), None)


def _said(run: Any) -> Iterator[Intent]:
    yield from _of_config(run)
    if not isinstance(run, nn.Module):
        yield from _of_code(run)
        return
    for path, module in run.named_modules():
        for name, value in vars(module).items():
            if is_causal_name(name) and isinstance(value, bool):
                yield Intent(value, f"{f'{path}.' if path else ''}{name} is {value}")
    yield from _of_tables(run)
    for kind in own_classes(run):
        plain = kind.__name__.lower().replace("_", "")
        if any(word in plain for word in _CAUSAL_CLASSES):
            yield Intent(True, f"the class is called {kind.__name__}")
        if any(word in plain for word in _BOTH_WAYS_CLASSES):
            yield Intent(False, f"the class is called {kind.__name__}")
    yield from _of_code(run)


def _of_config(run: Any) -> Iterator[Intent]:
    config = getattr(run, "config", None)
    if config is None or not hasattr(config, "model_type"):
        return
    kind = type(run).__name__
    if getattr(config, "is_encoder_decoder", False):
        yield Intent(True, f"{kind} is an encoder-decoder")
    elif kind.endswith("ForCausalLM") or getattr(config, "is_decoder", False):
        yield Intent(True, f"{kind} is a causal language model")


def _of_tables(run: nn.Module) -> Iterator[Intent]:
    """A table that a module keeps and that is a lower or an upper triangle."""
    for path, module in run.named_modules():
        named: dict[str, Any] = {**dict(module.named_buffers(recurse=False)), **vars(module)}
        for name, value in named.items():
            if isinstance(value, Tensor) and _is_triangle(value):
                yield Intent(True, f"{f'{path}.' if path else ''}{name} is a triangular mask")


def _is_triangle(table: Tensor) -> bool:
    if table.dim() < 2 or table.shape[-1] != table.shape[-2] or table.shape[-1] < 3:
        return False
    square = table.detach().reshape(-1, *table.shape[-2:])[0]
    if square.is_complex():
        return False
    shown = (
        torch.isneginf(square)
        if square.is_floating_point() and bool(square.isinf().any())
        else square != 0
    )
    low, high = shown.tril(-1), shown.triu(1)
    full = shown.shape[-1] * (shown.shape[-1] - 1) // 2
    counts = int(low.count_nonzero()), int(high.count_nonzero())
    return counts in {(full, 0), (0, full)}


def _of_code(run: Any) -> Iterator[Intent]:
    """Code that makes a triangle, or passes `is_causal=True`."""
    for tree in trees(run):
        for node in ast.walk(tree):
            if isinstance(node, ast.keyword) and node.arg and is_causal_name(node.arg):
                if isinstance(node.value, ast.Constant) and node.value.value is True:
                    yield Intent(True, f"its code says {node.arg}=True")
            called = node.func if isinstance(node, ast.Call) else None
            name = getattr(called, "attr", getattr(called, "id", ""))
            if name in {
                "tril",
                "triu",
                "generate_square_subsequent_mask",
                "tril_",
                "triu_",
                "tril_indices",
            }:
                yield Intent(True, f"its code calls {name}")
            elif name and is_causal_name(name):
                yield Intent(True, f"its code calls {name}")
