"""All around a model that a recording could disturb, written down to be compared."""

from __future__ import annotations

import gc
import random
import sys
import threading
import warnings
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.modules import activation, dropout, transformer
from torch.nn.modules import module as module_code
from torch.nn.modules.module import _WrappedHook
from torch.utils import _device
from torch.utils._python_dispatch import _disable_current_modes

from tests.capture.promise.sameness import Bits, Same

NAMESPACES: tuple[ModuleType, ...] = (
    torch,
    functional,
    activation,
    dropout,
    transformer,
    module_code,
    torch.overrides,
    torch.autograd,
    torch.autograd.graph,
    torch.nn.attention,
    torch.utils.checkpoint,
    torch.compiler,
    torch.func,
)
CLASSES: tuple[type, ...] = (
    Tensor,
    nn.Parameter,
    torch.autograd.Function,
    torch.overrides.TorchFunctionMode,
    *(one for _, one in sorted(vars(nn).items()) if isinstance(one, type)),
)
_MISSING = object()
_TABLES = {name for name in vars(module_code) if name.startswith("_global_")}
_PASSING = _TABLES | {
    "__annotations__", "__dict__", "__slotnames__", "__warningregistry__", "__weakref__",
}  # fmt: skip
_COMPILER = ("_dynamo", "_torchdynamo")  # marks of what was compiled; opened code isn't
HOOKS = (
    "_forward_hooks _forward_pre_hooks _backward_hooks _backward_pre_hooks _state_dict_hooks "
    "_state_dict_pre_hooks _load_state_dict_pre_hooks _load_state_dict_post_hooks"
).split()


@dataclass(frozen=True, slots=True)
class World:
    """Facts by name; two worlds are the same if and only if all of their facts are."""

    facts: dict[str, Any]

    def differences(self, other: World) -> list[str]:
        """Return the names of facts that are not the same in both, in order."""
        names = sorted(self.facts.keys() | other.facts.keys())
        found: list[str] = []
        for name in names:
            mine, its = self.facts.get(name, _MISSING), other.facts.get(name, _MISSING)
            if isinstance(mine, Names) and isinstance(its, Names):
                found.extend(f"{name}.{inner}" for inner in mine.differences(its))
            elif mine != its:
                found.append(name)
        return found


class Names:
    """What each name of a namespace stands for, compared by identity."""

    def __init__(self, space: Mapping[str, object], skip: Collection[str]) -> None:
        self.things = {name: thing for name, thing in space.items() if name not in skip}

    def differences(self, other: Names) -> list[str]:
        """Return the names that stand for other things."""
        mine, its = self.things, other.things
        names = mine.keys() | its.keys()
        return sorted(n for n in names if mine.get(n, _MISSING) is not its.get(n, _MISSING))


def world_now(model: object = None) -> World:
    """Write down this process, this thread and the modules of `model`."""
    facts = _modes()
    with torch._C.DisableTorchFunction(), _disable_current_modes():
        facts |= {**_random(), **_flags(), **_python(), **_code()}
        if isinstance(model, nn.Module):
            facts |= _model(model)
    return World(facts)


def _modes() -> dict[str, Any]:
    functions = range(torch._C._len_torch_function_stack())
    dispatch = range(torch._C._len_torch_dispatch_stack())
    return {
        "function modes": [type(torch._C._get_function_stack_at(i)) for i in functions],
        "dispatch modes": [type(torch._C._get_dispatch_stack_at(i)) for i in dispatch],
        "default device": _device.CURRENT_DEVICE,
        "grad mode": torch.is_grad_enabled(),
        "inference mode": torch.is_inference_mode_enabled(),
        "saved tensor hooks": torch._C._autograd._saved_tensors_hooks_is_enabled(),  # type: ignore[attr-defined]
        "saved tensor hooks on top": torch._C._autograd._top_saved_tensors_default_hooks(False),  # noqa: FBT003  positional only
        "anomaly": torch.is_anomaly_enabled(),
        "autocast": [torch.is_autocast_enabled(one) for one in ("cpu", "cuda")],
        "autocast dtype": [torch.get_autocast_dtype(one) for one in ("cpu", "cuda")],
        "autocast cache": torch.is_autocast_cache_enabled(),
        "functorch depth": torch._C._functorch.maybe_current_level(),
        "stance": _stance(),
    }


def _stance() -> Any:
    frames = sys.modules.get("torch._dynamo.eval_frame")
    return None if frames is None else frames._stance


def _random() -> dict[str, Any]:
    kind, keys, *rest = np.random.get_state()  # noqa: NPY002  the generator that models share
    return {
        "random.python": random.getstate(),
        "random.numpy": (kind, np.asarray(keys).tobytes(), *rest),
        "random.torch": Bits.of(torch.get_rng_state()),
        "random.torch seed": torch.initial_seed(),
    }


def _flags() -> dict[str, Any]:
    cuda, cudnn = torch.backends.cuda, torch.backends.cudnn
    return {
        "default dtype": torch.get_default_dtype(),
        "threads": (torch.get_num_threads(), torch.get_num_interop_threads()),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "deterministic warn": torch.is_deterministic_algorithms_warn_only_enabled(),
        "deterministic fill": torch.utils.deterministic.fill_uninitialized_memory,  # type: ignore[attr-defined]
        "matmul precision": torch.get_float32_matmul_precision(),
        "sdp": (
            cuda.flash_sdp_enabled(),
            cuda.mem_efficient_sdp_enabled(),
            cuda.math_sdp_enabled(),
            cuda.cudnn_sdp_enabled(),
        ),
        "mha fastpath": torch.backends.mha.get_fastpath_enabled(),
        "cudnn": (cudnn.enabled, cudnn.benchmark, cudnn.deterministic, cudnn.allow_tf32),
        "mkldnn": (torch.backends.mkldnn.enabled, torch.backends.mkldnn.deterministic),
        "opt_einsum": (torch.backends.opt_einsum.enabled, torch.backends.opt_einsum.strategy),
        "flex without compile": _flex_flag(),
    }


def _flex_flag() -> Any:
    flex = sys.modules.get("torch.nn.attention.flex_attention")
    return None if flex is None else vars(flex).get("_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG")


def _python() -> dict[str, Any]:
    return {
        "warning filters": list(warnings.filters),
        "recursion limit": sys.getrecursionlimit(),
        "trace function": sys.gettrace(),
        "profile function": sys.getprofile(),
        "thread trace": threading.gettrace(),
        "hooks of the interpreter": (Same(sys.excepthook), Same(sys.displayhook)),
        "garbage collector": (gc.isenabled(), gc.get_threshold(), len(gc.callbacks)),
        "threads alive": threading.active_count(),
    }


def _code() -> dict[str, Any]:
    """Every name of PyTorch's modules and classes, by the identity of what it stands for.

    A submodule of `torch` that somebody imports late becomes a name there, which changes nothing.
    """
    facts: dict[str, Any] = {
        f"module {space.__name__}": Names(vars(space), _PASSING) for space in NAMESPACES
    }
    facts |= {f"class {one.__qualname__}": Names(vars(one), _PASSING) for one in CLASSES}
    late = {name for name, value in vars(torch).items() if isinstance(value, ModuleType)}
    facts["module torch"] = Names(vars(torch), late | _PASSING)
    for name in _TABLES:
        value = getattr(module_code, name)
        facts[f"hooks of all modules {name}"] = _hooks(value) if isinstance(value, dict) else value
    library = sys.modules.get("transformers.modeling_utils")
    if library is not None:
        table = library.ALL_ATTENTION_FUNCTIONS
        facts["attention table"] = Names({key: table[key] for key in table}, ())
    return facts


def _model(model: nn.Module) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    for path, module in model.named_modules(remove_duplicate=False):
        facts[f"module {path}"] = type(module)
        for key, value in vars(module).items():
            if key.startswith(_COMPILER):
                continue
            facts[f"module {path} attribute {key}"] = _attribute(key, value)
    for path, parameter in model.named_parameters():
        facts[f"parameter {path}"] = _tensor(parameter)
    for path, buffer in model.named_buffers():
        facts[f"buffer {path}"] = _tensor(buffer)
    return facts


def _attribute(key: str, value: Any) -> Any:
    if key in HOOKS:
        return _hooks(value)
    if isinstance(value, dict) and key in ("_parameters", "_buffers", "_modules"):
        return list(value)
    if isinstance(value, Tensor):
        return Bits.of(value)
    if value is None or isinstance(value, bool | int | float | str | torch.dtype | torch.device):
        return value
    return getattr(value, "__qualname__", type(value))


def _tensor(tensor: Tensor) -> Any:
    return (
        Bits.of(tensor),
        tensor._version if not tensor.is_inference() else None,
        None if tensor.grad is None else Bits.of(tensor.grad),
        _hooks(tensor._backward_hooks),
        _hooks(getattr(tensor, "_post_accumulate_grad_hooks", None)),
        [name for name in sorted(vars(tensor)) if not name.startswith(_COMPILER)],
    )


def _hooks(hooks: Any) -> list[str]:
    """Describe a table of hooks by the functions in it; an empty table is as good as none."""
    if not hooks:
        return []
    values = hooks.values() if isinstance(hooks, dict) else hooks
    inner = [hook.hook if isinstance(hook, _WrappedHook) else hook for hook in values]
    return [getattr(hook, "__qualname__", type(hook).__qualname__) for hook in inner]


def live_tensors() -> int:
    """Return how many tensors there are after all garbage is gone."""
    gc.collect()
    return sum(issubclass(type(one), Tensor) for one in gc.get_objects())
