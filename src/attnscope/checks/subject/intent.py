"""What the author intends: as `expect` declares it, or as code and config say themselves."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard

import torch
from torch import Tensor, nn

from attnscope.checks.attributes import attribute
from attnscope.checks.subject.code import own_classes, tree_of, trees
from attnscope.checks.subject.given import Given
from attnscope.checks.subject.libraries import is_of_model_library
from attnscope.checks.subject.names import is_causal_name

__all__ = ["Intent", "causal_intent"]

_CAUSAL_CLASSES = ("causal", "gpt", "autoregressive", "decoderonly", "languagemodel")
_BOTH_WAYS_CLASSES = (
    "maskedlm",
    "maskedlanguage",
    "bidirectional",
    "encoderonly",
    "noncausal",
    "bert",
)
_DECODES = ("decoder", "tgt", "target")
_TRIANGLES = frozenset("tril triu tril_ triu_".split())
_ATTENDS = re.compile(r"softmax|atte?n|transformer|mask|scores", re.IGNORECASE)
_LARGEST_DIAGONAL = 2


@dataclass(frozen=True, slots=True)
class Intent:
    """What is meant to be, what says so, and whether it was declared in `expect`.

    sure: False where only code says so that may never run.
    """

    value: Any
    why: str
    declared: bool = False
    sure: bool = True


def causal_intent(run: Any, given: Given, expect: Mapping[str, Any]) -> Intent | None:
    """Return whether positions are meant to see earlier ones only; None: nothing says so.

    In an encoder-decoder it speaks of the decoder's own sequence.
    """
    if "causal" in expect:
        return Intent(bool(expect["causal"]), "expect declares it", declared=True)
    for name, value in given.values.items():
        if is_causal_name(name) and isinstance(value, bool):
            return Intent(value, f"the input {name} is {value}")
    for parameter in given.parameters:
        left_out = is_causal_name(parameter.name) and parameter.name not in given.values
        if left_out and parameter.default is True:
            return Intent(value=True, why=f"its {parameter.name} is True by default")
    return next(iter(_said(run, given)), None)


def _said(run: Any, given: Given) -> Iterator[Intent]:
    """Iterate over what the model says of itself, the plainest first."""
    yield from _of_config(run)
    if not isinstance(run, nn.Module):
        yield from _of_code(run)
        return
    yield from _of_attributes(run, given)
    yield from _of_tables(run)
    for kind in _written(run):
        yield from _of_name(kind.__name__)
    yield from _of_code(run)


def is_library_config(config: Any) -> bool:
    """Return whether a configuration is one of Hugging Face: they all name their kind of model."""
    return isinstance(attribute(config, "model_type"), str)


def _of_config(run: Any) -> Iterator[Intent]:
    config = attribute(run, "config")
    if not is_library_config(config):
        return
    kind = type(run).__name__
    if attribute(config, "is_encoder_decoder"):
        yield Intent(value=True, why=f"{kind} is an encoder-decoder")
    elif kind.endswith("ForCausalLM") or attribute(config, "is_decoder"):
        yield Intent(value=True, why=f"{kind} is a causal language model")


def _of_attributes(run: nn.Module, given: Given) -> Iterator[Intent]:
    """Flags of modules: where they disagree, those of the decoder count, if there is one."""
    flags = [
        (value, f"{path}.{name}" if path else name)
        for path, module in run.named_modules()
        for name, value in vars(module).items()
        if is_causal_name(name) and isinstance(value, bool)
    ]
    decodes = any(name.startswith(_DECODES) for name in given.values)
    agreed = {value for value, _ in flags}
    if decodes and True in agreed:
        agreed = {True}
    for value, name in flags:
        if agreed == {value}:
            yield Intent(value, f"{name} is {value}", sure=value)


def _of_tables(run: nn.Module) -> Iterator[Intent]:
    """A table that a module which attends keeps, and that is a lower or an upper triangle."""
    for path, module in run.named_modules():
        named: dict[str, Any] = {**dict(module.named_buffers(recurse=False)), **vars(module)}
        for name, value in named.items():
            if isinstance(value, Tensor) and _is_triangle(value) and _attends(type(module)):
                yield Intent(
                    value=True, why=f"{f'{path}.' if path else ''}{name} is a triangular mask"
                )


def _attends(kind: type) -> bool:
    """Return whether the code of a class speaks of attention, or can't be read."""
    tree = tree_of(kind)
    return tree is None or bool(_ATTENDS.search(ast.unparse(tree)))


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


def _of_name(name: str) -> Iterator[Intent]:
    plain = name.lower().replace("_", "")
    both = next((word for word in _BOTH_WAYS_CLASSES if word in plain), None)
    if both is not None:
        yield Intent(value=False, why=f"the class is called {name}", sure=both != "bert")
    elif "conv" not in plain and any(word in plain for word in _CAUSAL_CLASSES):
        yield Intent(value=True, why=f"the class is called {name}")


def _written(run: nn.Module) -> list[type]:
    """Return the classes that the author wrote: not those of a library, which serve many models."""
    return [kind for kind in own_classes(run) if not is_of_model_library(kind)]


def _of_code(run: Any) -> Iterator[Intent]:
    """Code that makes a triangle, or passes `is_causal=True`."""
    own = [tree_of(kind) for kind in _written(run)] if isinstance(run, nn.Module) else trees(run)
    for tree in own:
        if tree is None or not _ATTENDS.search(ast.unparse(tree)):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.keyword) and _says_true(node):
                yield Intent(value=True, why=f"its code says {node.arg}=True")
            name = _called(node)
            triangle = name in _TRIANGLES and isinstance(node, ast.Call) and _is_causal_edge(node)
            if triangle or (is_causal_name(name) and not name.startswith(("non", "is_", "not_"))):
                yield Intent(value=True, why=f"its code calls {name}", sure=False)


def _says_true(keyword: ast.keyword) -> bool:
    constant = isinstance(keyword.value, ast.Constant) and keyword.value.value is True
    return constant and keyword.arg is not None and is_causal_name(keyword.arg)


def _called(node: ast.AST) -> str:
    """Return the name of the function that is called, "" where there is none."""
    if not isinstance(node, ast.Call):
        return ""
    return str(getattr(node.func, "attr", getattr(node.func, "id", "")))


def _is_causal_edge(call: ast.Call) -> bool:
    """Return whether a triangle has an edge at the diagonal, or where queries and keys differ.

    A window to both sides is a triangle too, with an edge as far off as it reaches.
    """
    method = isinstance(call.func, ast.Attribute) and getattr(call.func.value, "id", "") != "torch"
    edges = [k.value for k in call.keywords if k.arg == "diagonal"]
    edges += call.args[0 if method else 1 :]
    if not edges:
        return True
    try:
        known = ast.literal_eval(edges[0])
    except (ValueError, TypeError):
        own = {n.attr for n in ast.walk(edges[0]) if _is_own(n)}
        named = {n.id for n in ast.walk(edges[0]) if isinstance(n, ast.Name)} - {"self"} | own
        return len(named) > 1
    return isinstance(known, int) and abs(known) <= _LARGEST_DIAGONAL


def _is_own(node: ast.AST) -> TypeGuard[ast.Attribute]:
    return isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == "self"
