"""The snapshot itself: nothing differs where nothing happened, and each kind of harm is noticed."""

from __future__ import annotations

import contextlib
import gc
import random
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules import module as module_code
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from attnscope.calls.trace import Trace
from tests.capture.promise.models import Block, sample, step
from tests.capture.promise.runs import outcome, undisturbed
from tests.capture.promise.world import live_tensors, world_now


class Offset(TorchFunctionMode):
    """Changes the result of every softmax by the smallest amount there is."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        output = func(*args, **(kwargs or {}))
        if getattr(func, "__name__", "") == "softmax":
            return torch.nextafter(output, torch.ones(()))
        return output


class Copies(TorchFunctionMode):
    """Gives equal values in other memory."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        output = func(*args, **(kwargs or {}))
        if getattr(func, "__name__", "") == "flatten":
            return output.mT.contiguous().mT
        return output


def no_hook(*_: Any) -> None:
    return None


def parameter(model: Any) -> Tensor:
    return next(iter(model.parameters()))  # type: ignore[no-any-return]


HARMS: dict[str, Callable[[Any], Any]] = {
    "draws from python": lambda _: random.random(),  # noqa: S311  that is the harm
    "draws from numpy": lambda _: np.random.rand(),  # noqa: NPY002
    "draws from torch": lambda _: torch.rand(()),
    "seeds torch": lambda _: torch.manual_seed(8),
    "train mode": lambda model: model.norm.train(mode=False),
    "module hook": lambda model: model.out.register_forward_hook(no_hook),
    "module backward hook": lambda model: model.out.register_full_backward_hook(no_hook),
    "state dict hook": lambda model: model.register_state_dict_pre_hook(no_hook),
    "tensor hook": lambda model: parameter(model).register_hook(no_hook),
    "gradient hook": lambda m: parameter(m).register_post_accumulate_grad_hook(no_hook),
    "attribute of a module": lambda model: setattr(model.out, "seen", 1),
    "attribute of a parameter": lambda model: setattr(parameter(model), "seen", 1),
    "forward replaced": lambda model: setattr(model.out, "forward", model.out.forward),
    "parameter": lambda model: parameter(model).data.mul_(1 + 2**-23),
    "version": lambda model: torch.autograd.graph.increment_version(parameter(model)),
    "buffer": lambda model: model.calls.add_(1),
    "gradient": lambda model: parameter(model).grad.mul_(1 + 2**-23),  # type: ignore[union-attr]
    "no gradient": lambda model: model.requires_grad_(requires_grad=False),
    "warning": lambda _: warnings.warn("x", UserWarning, stacklevel=1),
}
LASTING: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "sdp": (
        lambda: torch.backends.cuda.enable_flash_sdp(False),  # noqa: FBT003  positional only
        lambda: torch.backends.cuda.enable_flash_sdp(True),  # noqa: FBT003  positional only
    ),
    "mha fastpath": (
        lambda: torch.backends.mha.set_fastpath_enabled(value=False),
        lambda: torch.backends.mha.set_fastpath_enabled(value=True),
    ),
    "matmul precision": (
        lambda: torch.set_float32_matmul_precision("high"),
        lambda: torch.set_float32_matmul_precision("highest"),
    ),
    "default dtype": (
        lambda: torch.set_default_dtype(torch.float64),
        lambda: torch.set_default_dtype(torch.float32),
    ),
    "grad mode": (
        lambda: torch._C._set_grad_enabled(False),  # noqa: FBT003  positional only
        lambda: torch._C._set_grad_enabled(True),  # noqa: FBT003  positional only
    ),
    "deterministic": (
        lambda: torch.use_deterministic_algorithms(mode=True),
        lambda: torch.use_deterministic_algorithms(mode=False),
    ),
    "autocast": (
        lambda: torch.set_autocast_enabled("cpu", True),  # noqa: FBT003  positional only
        lambda: torch.set_autocast_enabled("cpu", False),  # noqa: FBT003  positional only
    ),
    "anomaly": (
        lambda: torch.set_anomaly_enabled(True),
        lambda: torch.set_anomaly_enabled(False),
    ),
    "default device": (
        lambda: torch.set_default_device("cpu"),
        lambda: torch.set_default_device(None),
    ),
    "profile function": (lambda: sys.setprofile(no_hook), lambda: sys.setprofile(None)),
    "garbage collector": (gc.disable, gc.enable),
    "module torch.nn.functional.softmax": (
        lambda: setattr(F, "softmax", no_hook),
        lambda saved=F.softmax: setattr(F, "softmax", saved),  # type: ignore[misc]
    ),
    "class Linear.forward": (
        lambda: setattr(nn.Linear, "forward", no_hook),
        lambda saved=nn.Linear.forward: setattr(nn.Linear, "forward", saved),  # type: ignore[misc]
    ),
    "class Tensor.matmul": (
        lambda: setattr(Tensor, "matmul", no_hook),
        lambda: delattr(Tensor, "matmul"),
    ),
    "hooks of all modules _global_forward_hooks": (
        lambda: module_code.register_module_forward_hook(no_hook),
        module_code._global_forward_hooks.clear,
    ),
}


@contextlib.contextmanager
def harming(harm: Callable[[Any], Any], model: Any) -> Iterator[Trace]:
    yield Trace()
    harm(model)


def test_two_equal_runs_are_the_same() -> None:
    plain = outcome(Block, step, None)
    assert plain.differences(outcome(Block, step, None)) == []
    assert undisturbed(Block, step, recorder=lambda _: contextlib.nullcontext(Trace())).calls == []


@pytest.mark.parametrize("harm", HARMS.values(), ids=HARMS)
def test_harm_to_a_model_is_noticed(harm: Callable[[Any], Any]) -> None:
    plain = outcome(Block, step, None)
    harmed = outcome(Block, step, lambda model: harming(harm, model))
    assert len(plain.differences(harmed)) >= 1


@pytest.mark.parametrize("fact", LASTING)
def test_harm_to_the_process_is_noticed(fact: str) -> None:
    harm, cure = LASTING[fact]
    before = world_now()
    harm()
    try:
        differences = before.differences(world_now())
    finally:
        cure()
    assert any(fact in one for one in differences)
    assert before.differences(world_now()) == []


def test_warning_filters_and_threads_are_noticed() -> None:
    before = world_now()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert "warning filters" in before.differences(world_now())
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    assert before.differences(world_now()) == ["threads alive"]
    done.set()
    thread.join()


@pytest.mark.parametrize("mode", [Offset, Copies])
def test_other_results_are_noticed(mode: type[TorchFunctionMode]) -> None:
    assert outcome(Block, step, None).differences(outcome(Block, step, lambda _: mode())) != []


@pytest.mark.parametrize("mode", [TorchFunctionMode, TorchDispatchMode])
def test_a_mode_left_behind_is_noticed(mode: type[Any]) -> None:
    before = world_now()
    with mode():
        assert len(before.differences(world_now())) == 1
    assert before.differences(world_now()) == []


def test_a_changed_error_is_noticed() -> None:
    def fail(text: str) -> Callable[[Any], Any]:
        def run(_: Any) -> None:
            raise ValueError(text)

        return run

    one, two = (outcome(Block, fail(text), None) for text in ("one", "two"))
    assert one.differences(two) != []


def test_kept_tensors_are_counted() -> None:
    gc.collect()
    gc.freeze()  # what there is already need not be looked at again
    before = live_tensors()
    kept = [sample()]
    assert live_tensors() == before + 1
    kept.clear()
    assert live_tensors() == before
    gc.unfreeze()
