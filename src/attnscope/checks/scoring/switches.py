"""The attributes by which an author's modules choose how attention is computed."""

from __future__ import annotations

import ast
import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from torch import nn

from attnscope.checks.attributes import attribute
from attnscope.checks.subject.code import tree_of
from attnscope.checks.subject.intent import is_library_config
from attnscope.checks.subject.libraries import is_of_library

__all__ = ["Switch", "switches_of", "turned"]

_FLAG = re.compile(r"flash|fused|sdpa|efficient|xformers|use_kernel|fast_?path|fast_?attn")
_NAME = re.compile(
    r"(flash|math|manual|eager|naive|torch|sdpa|fused|vanilla|efficient|xformers|native|einsum|"
    r"kernel|slow|fast|reference|scaled_dot_product)"
)
_CHOICE = re.compile(r"impl|backend|kernel|attn|attention|mode|method|engine")
_CONFIGS = ("config", "cfg", "args", "hparams", "params", "conf")
_MOST = 4
"""Other values of one attribute that are tried."""


@dataclass(frozen=True, slots=True, eq=False)
class Switch:
    """One attribute of some objects, and another value for it."""

    name: str
    owners: tuple[Any, ...]
    value: Any

    def __str__(self) -> str:
        return f"{type(self.owners[0]).__name__}.{self.name} = {self.value!r}"


def switches_of(model: nn.Module) -> Iterator[Switch]:
    """Iterate over flags to be turned over, and names of ways to be replaced by other ones.

    Which other names there are is read from the code: what an attribute is compared with, and the
    keys of tables of ways.
    """
    modules = [m for m in model.modules() if not is_of_library(m)]
    owners: dict[str, list[Any]] = {}
    for owner in _with_configs(modules):
        for name, value in _attributes(owner).items():
            flag = isinstance(value, bool) and _FLAG.search(name.lower())
            way = isinstance(value, str) and _CHOICE.search(name.lower()) and _is_way(value)
            if flag or way:
                owners.setdefault(name, []).append(owner)
    known = _ways_in_code(modules)
    for name, holding in owners.items():
        value = attribute(holding[0], name)
        others = [not value] if isinstance(value, bool) else [w for w in known if w != value]
        for other in others[:_MOST]:
            yield Switch(name, tuple(holding), other)


def _with_configs(modules: list[nn.Module]) -> Iterator[Any]:
    """Iterate over modules, and over the plain objects that they keep as their settings."""
    seen: set[int] = set()
    for module in modules:
        yield module
        for name in _CONFIGS:
            config = vars(module).get(name)
            plain = attribute(config, "__dict__") is not None and not isinstance(
                config, nn.Module | type
            )
            if plain and id(config) not in seen and not is_library_config(config):
                seen.add(id(config))
                yield config


def _attributes(owner: Any) -> dict[str, Any]:
    own = {k: v for k, v in vars(type(owner)).items() if isinstance(v, bool | str)}
    return {k: v for k, v in {**own, **vars(owner)}.items() if not k.startswith("__")}


def _is_way(value: str) -> bool:
    return bool(_NAME.search(value.lower())) and value.replace("_", "").isalnum()


def _ways_in_code(modules: list[nn.Module]) -> list[str]:
    """Return the names of ways in the code of some modules, in their order there."""
    found: dict[str, None] = {}
    for kind in dict.fromkeys(type(module) for module in modules):
        tree = tree_of(kind)  # type: ignore[arg-type]  # mypy takes a class for its instances
        for node in ast.walk(tree) if tree is not None else ():
            for part in _choices(node):
                if isinstance(part, ast.Constant) and isinstance(part.value, str):
                    found.setdefault(part.value)
    return [name for name in found if _is_way(name)]


def _choices(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.Compare):
        for part in node.comparators:
            yield from part.elts if isinstance(part, ast.Tuple | ast.List | ast.Set) else [part]
    elif isinstance(node, ast.Dict):
        yield from (key for key in node.keys if key is not None)
    elif isinstance(node, ast.MatchValue):
        yield node.value


@contextlib.contextmanager
def turned(switch: Switch) -> Iterator[None]:
    """Give the attribute its other value, and put back what there was."""
    own = [vars(owner).get(switch.name) for owner in switch.owners]
    done: list[Any] = []
    try:
        for owner in switch.owners:
            setattr(owner, switch.name, switch.value)
            done.append(owner)
        yield
    finally:
        for owner, value in zip(done, own, strict=False):
            if value is None:
                delattr(owner, switch.name)
            else:
                setattr(owner, switch.name, value)
