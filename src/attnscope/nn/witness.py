"""What a forward leaves so that a later change of what it depended on does not go unnoticed.

Version counters tell of writing in place, but not where tensors were made in inference mode, nor of
writing through `.data` or NumPy. Settings of parts are plain attributes. What remains unseen shows
in the output: an entry of each of its rows is kept, and has to come out again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from torch import Tensor, nn

from attnscope.calls.tolerance import largest_relative
from attnscope.nn.dropouts import AttentionDropouts
from attnscope.nn.masks import Mask

__all__ = ["Witness", "tensors_in"]

Settings: TypeAlias = tuple[tuple[str, str, Any], ...]
"""Path of a module, name and value of what is set there."""

_SETTINGS = (bool, int, float, str, type(None), Mask, AttentionDropouts)
_SETTINGS_OF_TORCH = {"training"}  # a run is made in the mode of the forward


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Witness:
    """What was seen of a forward.

    arguments: versions of its tensors; parameters: memory and versions of the module's; settings:
    of the module and its parts; entries: an entry of each row of all that it returned.
    """

    arguments: tuple[int, ...]
    parameters: tuple[tuple[int, int], ...]
    settings: Settings
    entries: tuple[Tensor, ...]

    @classmethod
    def of(
        cls,
        module: nn.Module,
        arguments: tuple[int, ...],
        parameters: tuple[tuple[int, int], ...],
        result: Any,
    ) -> Witness:
        """Take note of what a forward returned, given the versions before it."""
        return cls(arguments, parameters, _settings(module), entries_of(result))

    def changed(self, module: nn.Module, arguments: Iterable[Any]) -> str | None:
        """Return what was changed since, as far as it can be told without running again."""
        if versions(arguments) != self.arguments:
            return "an argument of it"
        if parameter_versions(module) != self.parameters:
            return "a parameter of the module"
        # by `is` first: a mask that holds a tensor can't be compared by value
        now = _settings(module)
        same = len(now) == len(self.settings) and all(
            a[:2] == b[:2] and (a[2] is b[2] or _equal(a[2], b[2]))
            for a, b in zip(now, self.settings, strict=True)
        )
        return None if same else "a setting of the module or of one of its parts"

    def agrees(self, result: Any, bound: float) -> bool:
        """Return whether another run returned the same, within `bound` of its largest entry."""
        again = entries_of(result)
        return len(again) == len(self.entries) and all(
            largest_relative(a, b) <= bound for a, b in zip(again, self.entries, strict=True)
        )


def versions(values: Iterable[Any]) -> tuple[int, ...]:
    """Return how often each tensor in `values` was written to; those of inference can't tell."""
    return tuple(
        x._version  # noqa: SLF001  no public way to ask
        for x in tensors_in(values)
        if not x.is_inference()
    )


def parameter_versions(module: nn.Module) -> tuple[tuple[int, int], ...]:
    """Return where each parameter lies, and how often it was written to."""
    return tuple(
        (p.data_ptr(), 0 if p.is_inference() else p._version)  # noqa: SLF001  as above
        for p in module.parameters()
    )


def tensors_in(values: Iterable[Any]) -> Iterator[Tensor]:
    """Iterate over the tensors among arguments, inside tuples, lists and masks too."""
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, Mask):
            yield from tensors_in(vars(value).values())
        elif isinstance(value, (tuple, list)):
            yield from tensors_in(value)
        elif isinstance(value, Mapping):
            yield from tensors_in(value.values())


def entries_of(result: Any) -> tuple[Tensor, ...]:
    """Return copies of a few entries of each tensor: one a row, each time of another column."""
    return tuple(_entries(x.detach()) for x in tensors_in((result,)))


def _entries(x: Tensor) -> Tensor:
    if x.is_nested:
        x = x.values()
    if not x.numel():
        return x
    last = sum((size - 1) * stride for size, stride in zip(x.shape, x.stride(), strict=True))
    if last + 1 != x.numel():  # not one piece of memory
        x = x.contiguous()
    step = max(x.shape[-1] - 1, 1) if x.dim() else 1
    count = -(-x.numel() // step)
    return x.as_strided((count,), (step,), x.storage_offset()).clone()


def _settings(module: nn.Module) -> Settings:
    return tuple(
        (path, name, value)
        for path, child in module.named_modules()
        for name, value in vars(child).items()
        if isinstance(value, _SETTINGS)
        and not name.startswith("_")
        and name not in _SETTINGS_OF_TORCH
    )


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, Mask) or type(a) is not type(b):
        return False
    return bool(a == b) or (a != a and b != b)  # noqa: PLR0124  NaN
