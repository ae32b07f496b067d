"""Everything that a run leaves behind, so that two runs can be compared bit for bit."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

State = dict[str, Any]
"""Tensors and plain values by name; the part before the first "/" says what kind of thing it is."""

_HOOKS = (
    "_forward_hooks",
    "_forward_pre_hooks",
    "_backward_hooks",
    "_backward_pre_hooks",
    "_state_dict_hooks",
    "_state_dict_pre_hooks",
    "_load_state_dict_pre_hooks",
)
_FUNCTIONS: tuple[tuple[Any, str], ...] = (
    (F, "softmax"),
    (F, "scaled_dot_product_attention"),
    (F, "multi_head_attention_forward"),
    (torch, "softmax"),
    (torch, "matmul"),
    (Tensor, "softmax"),
    (nn.Module, "__call__"),
    (nn.MultiheadAttention, "forward"),
    (nn.TransformerEncoder, "forward"),
    (nn.TransformerEncoderLayer, "forward"),
)
_DEEPEST = 12


def state_after(model: nn.Module, output: Any) -> State:
    """Return what a run of `model` left behind: output, gradients, buffers, modes, random state."""
    state: State = {f"output/{path}": tensor.detach() for path, tensor in tensors_in(output)}
    for name, parameter in model.named_parameters():
        state[f"parameter/{name}"] = parameter.detach()
        state[f"gradient/{name}"] = parameter.grad
    state |= {f"buffer/{name}": buffer for name, buffer in model.named_buffers()}
    for name, module in model.named_modules():
        state[f"mode/{name}"] = module.training
        state[f"hooks/{name}"] = tuple(len(getattr(module, kind, ())) for kind in _HOOKS)
        state[f"attributes/{name}"] = sorted(vars(module))
    return state | _random() | _settings()


def differences(one: State, other: State) -> list[str]:
    """Return the names under which the two differ, in bits."""
    names = dict.fromkeys([*one, *other])
    return [name for name in names if not _same(one.get(name, ...), other.get(name, ...))]


def tensors_in(value: Any, path: str = "", depth: int = 0) -> Iterator[tuple[str, Tensor]]:
    """Iterate over the tensors in an output: containers, and objects of transformers (caches)."""
    if isinstance(value, Tensor):
        yield path, value
    elif depth < _DEEPEST:
        for name, part in _parts(value):
            yield from tensors_in(part, f"{path}.{name}" if path else name, depth + 1)


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        yield from ((str(key), part) for key, part in value.items())
    elif isinstance(value, list | tuple):
        yield from ((str(index), part) for index, part in enumerate(value))
    elif type(value).__module__.startswith("transformers.") and not isinstance(value, nn.Module):
        yield from getattr(value, "__dict__", {}).items()


def _random() -> State:
    kind, keys, *rest = np.random.get_state(legacy=True)  # noqa: NPY002  the state others draw from
    return {
        "random/torch": torch.get_rng_state(),
        "random/python": random.getstate(),
        "random/numpy": (kind, tuple(keys), *rest),
    }


def _settings() -> State:
    backends = torch.backends
    settings: State = {
        "settings/default dtype": torch.get_default_dtype(),
        "settings/grad": torch.is_grad_enabled(),
        "settings/inference": torch.is_inference_mode_enabled(),
        "settings/autocast": torch.is_autocast_enabled("cpu"),
        "settings/deterministic": torch.are_deterministic_algorithms_enabled(),
        "settings/threads": torch.get_num_threads(),
        "settings/precision": torch.get_float32_matmul_precision(),
        "settings/mha fast path": backends.mha.get_fastpath_enabled(),
        "settings/flash": backends.cuda.flash_sdp_enabled(),
        "settings/math": backends.cuda.math_sdp_enabled(),
        "settings/memory-efficient": backends.cuda.mem_efficient_sdp_enabled(),
        "settings/cudnn": backends.cudnn.enabled,
        "settings/mkldnn": backends.mkldnn.is_available() and backends.mkldnn.enabled,
        "settings/function modes": torch._C._len_torch_function_stack(),  # noqa: SLF001
        "settings/module hooks": len(nn.modules.module._global_forward_hooks),  # noqa: SLF001
    }
    return settings | {
        f"functions/{getattr(owner, '__name__', owner)}.{name}": id(getattr(owner, name))
        for owner, name in _FUNCTIONS
    }


def _same(one: Any, other: Any) -> bool:
    if not (isinstance(one, Tensor) and isinstance(other, Tensor)):
        return type(one) is type(other) and bool(one == other)
    if one.shape != other.shape or one.dtype != other.dtype or one.layout != other.layout:
        return False
    if one.layout != torch.strided or one.is_meta:
        return one.is_meta or bool(torch.equal(one.to_dense(), other.to_dense()))
    return bool(torch.equal(_bits(one), _bits(other)))


def _bits(tensor: Tensor) -> Tensor:
    return tensor.detach().resolve_conj().resolve_neg().contiguous().reshape(-1).view(torch.uint8)
