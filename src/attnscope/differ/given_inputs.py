"""What both sides are given: token ids and BOS, padding and its side, other tensors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

Told: TypeAlias = tuple[str, str, str, bool, str]
"""Name, the candidate's, the reference's, whether equal, note: a condition's fields."""

_TOKENS = ("input_ids", "ids", "tokens", "token_ids", "idx", "x", "input", "inputs")
_MASKS = ("attention_mask", "mask", "padding_mask", "key_padding_mask", "attn_mask", "src_mask")
_OTHERS = "input"


def compare_inputs(candidate: object, reference: object, configs: Sequence[Any]) -> list[Told]:
    """Return the conditions that the inputs of both sides make.

    Args:
        candidate: its inputs, a dict, a tuple or a tensor.
        reference: the reference's.
        configs: of both, which may know the BOS and the padding token; None where there is none.
    """
    ours, theirs = (_named(side) for side in (candidate, reference))
    found: list[Told] = []
    for name in dict.fromkeys((*ours, *theirs)):
        left, right = ours.get(name), theirs.get(name)
        if left is None or right is None:
            there, absent = ("the candidate", "the reference")[:: 1 if right is None else -1]
            note = f"{there} alone is given it, {absent} is not"
            found.append((name, _sized(left), _sized(right), False, note))
            continue
        found.append(_compared(name, left, right))
        if name == "token ids":
            found += _tokens(left, right, configs)
        elif name == "mask" and left.ndim == right.ndim == 2:
            found.append(_same("padding side", _side(_keeps(left)), _side(_keeps(right))))
    return found


def _named(inputs: object) -> dict[str, Tensor]:
    """Return the tensors of some inputs under names that both sides share.

    Whole numbers are token ids, what is called a mask is a mask; floats keep their names, and
    have numbers where they are positional.
    """
    entries: Iterable[tuple[str, object]]
    if isinstance(inputs, Mapping):
        entries = [(str(name), value) for name, value in inputs.items()]
    elif isinstance(inputs, list | tuple):
        entries = [("", value) for value in inputs]
    else:
        entries = [("", inputs)]
    found: dict[str, Tensor] = {}
    for name, value in entries:
        tensor = torch.from_numpy(value) if isinstance(value, np.ndarray) else value
        if isinstance(tensor, Tensor):
            found[_name(name, tensor, found)] = tensor.detach().cpu()
    return found


def _name(name: str, tensor: Tensor, taken: Mapping[str, Tensor]) -> str:
    whole = not tensor.is_floating_point() and tensor.dtype != torch.bool
    if whole and "token ids" not in taken and (not name or name in _TOKENS):
        return "token ids"
    if "mask" not in taken and (name in _MASKS or (not name and tensor.dtype == torch.bool)):
        return "mask"
    if name:
        return name if tensor.ndim != 3 or _count(taken) else f"{_OTHERS} 0"
    return f"{_OTHERS} {_count(taken)}"


def _count(taken: Mapping[str, Tensor]) -> int:
    return sum(name.startswith(_OTHERS) for name in taken)


def _sized(tensor: Tensor | None) -> str:
    if tensor is None:
        return "absent"
    return f"{tuple(tensor.shape)} {str(tensor.dtype).removeprefix('torch.')}"


def _same(name: str, left: str, right: str, note: str = "") -> Told:
    return name, left, right, left == right, "" if left == right else note


def _compared(name: str, left: Tensor, right: Tensor) -> Told:
    """Compare two tensors, and name the first place where they differ."""
    if left.shape != right.shape:
        return name, _sized(left), _sized(right), False, "the shapes differ"
    apart = _unequal(left, right)
    if not bool(apart.any()):
        note = "" if left.dtype == right.dtype else "the same values in another type"
        return name, _sized(left), _sized(right), True, note
    first = tuple(int(at) for at in apart.nonzero()[0])
    note = f"{int(apart.sum())} of {apart.numel()} differ, the first at {list(first)}"
    return name, _value(left[first]), _value(right[first]), False, note


def _unequal(left: Tensor, right: Tensor) -> Tensor:
    both = torch.promote_types(left.dtype, right.dtype)
    left, right = left.to(both), right.to(both)
    return (left != right) & ~((left != left) & (right != right))  # noqa: PLR0124  NaN equals NaN


def _value(value: Tensor) -> str:
    number = value.item()
    return f"{number:g}" if isinstance(number, float) else str(number)


# tokens and padding


def _tokens(left: Tensor, right: Tensor, configs: Sequence[Any]) -> list[Told]:
    """Say whether the sequences begin with BOS, and on which side they are padded."""
    found: list[Told] = []
    bos = _known(configs, "bos_token_id")
    pad = _known(configs, "pad_token_id")
    if bos is not None:
        ours, theirs = (_begins(side, bos, pad) for side in (left, right))
        found.append(_same("BOS", ours, theirs, "a missing BOS token shifts every position"))
    if pad is not None and left.ndim == right.ndim == 2:
        ours, theirs = (_side(side != pad) for side in (left, right))
        found.append(_same("padding tokens", ours, theirs, "the positions of real tokens differ"))
    return found


def _known(configs: Sequence[Any], name: str) -> int | None:
    for config in configs:
        value = config.get(name) if isinstance(config, Mapping) else getattr(config, name, None)
        if isinstance(value, int):
            return value
    return None


def _begins(ids: Tensor, bos: int, pad: int | None) -> str:
    rows = ids.reshape(-1, ids.shape[-1]).tolist()
    first = [next((token for token in row if token != pad or token == bos), None) for row in rows]
    count = sum(token == bos for token in first)
    if count in {0, len(first)}:
        return "present" if count else "absent"
    return f"present in {count} of {len(first)} rows"


def _keeps(mask: Tensor) -> Tensor:
    """Return a padding mask as True = real token; one that is mostly 0 is read as drop-True."""
    if mask.is_floating_point() and bool((mask < 0).any()):
        return mask >= 0
    real = mask.bool()
    return real if bool(real.float().mean() >= 0.5) else ~real  # noqa: PLR2004  the larger part


def _side(real: Tensor) -> str:
    """Return where padding stands in (batch, length), True = real token."""
    if bool(real.all()):
        return "none"
    left, right = bool((~real[:, 0]).any()), bool((~real[:, -1]).any())
    if left and right:
        return "left and right"
    return "left" if left else "right" if right else "inside"
