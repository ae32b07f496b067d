"""Hooks, copies, pickles and changes of a model work inside a recording as they do outside."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.modules.module import (
    register_module_forward_hook,
    register_module_full_backward_hook,
)
from torch.nn.utils import parametrizations, parametrize, prune

from tests.capture.promise.models import ATTENTIONS, Block, Stack, fused, sample, step
from tests.capture.promise.runs import undisturbed

every_attention = pytest.mark.parametrize("attend", ATTENTIONS.values(), ids=ATTENTIONS)


def module_hooks(model: nn.Module) -> Any:
    seen: list[Any] = []
    for name, module in model.named_modules():
        module.register_forward_pre_hook(lambda *_, name=name: seen.append(("pre", name)))
        module.register_forward_hook(lambda *_, name=name: seen.append(("post", name)))
        module.register_full_backward_hook(lambda *_, name=name: seen.append(("back", name)))
    return step(model), seen


def changing_hooks(model: nn.Module) -> Any:
    model.out.register_forward_hook(lambda *given: given[-1] * 2)  # type: ignore[union-attr]
    model.q.register_forward_pre_hook(lambda *given: (given[1][0] + 1,))  # type: ignore[union-attr]
    handle = model.kv.register_full_backward_hook(lambda *given: tuple(g * 2 for g in given[1]))  # type: ignore[union-attr]
    result = step(model)
    handle.remove()
    return result, step(model)


def hooks_of_all_modules(model: nn.Module) -> Any:
    seen: list[str] = []
    handles = [
        register_module_forward_hook(lambda *given: seen.append(type(given[0]).__name__)),
        register_module_full_backward_hook(lambda *given: seen.append(type(given[0]).__name__)),
    ]
    result = step(model)
    for handle in handles:
        handle.remove()
    return result, seen


def tensor_hooks(model: nn.Module) -> Any:
    order: list[str] = []

    def named(name: str, factor: float) -> Callable[[Tensor], Tensor]:
        def hook(gradient: Tensor) -> Tensor:
            order.append(name)
            return gradient * factor

        return hook

    def watch(_: nn.Module, args: Any, out: Tensor) -> None:
        out.register_hook(named("out", 2.0))
        out.retain_grad()
        args[0].register_hook(named("context", 3.0))
        args[0].grad_fn.register_prehook(lambda *_: order.append("node"))

    model.out.register_forward_hook(watch)  # type: ignore[union-attr]
    for name, parameter in model.named_parameters():
        parameter.register_hook(named(name, 1.5))
        parameter.register_post_accumulate_grad_hook(lambda *_: order.append("accumulated"))
    return step(model), order


def saved_tensors(model: nn.Module) -> Any:
    packed: list[Any] = []

    def pack(tensor: Tensor) -> Tensor:
        packed.append(tuple(tensor.shape))
        return tensor.clone()

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        return step(model), packed


def graph_of(model: nn.Module) -> Any:
    """Walk over the whole graph: it has the same nodes in the same order."""
    out = model(sample())
    waiting, names = [out.grad_fn], []
    while waiting:
        node = waiting.pop()
        names.append(node.name())
        waiting.extend(one for one, _ in node.next_functions if one is not None)
    return out, names


def deep_copy(model: nn.Module) -> Any:
    twin = copy.deepcopy(model)
    twin(sample())
    return step(model), step(twin), copy.copy(model)(sample())


def pickled(model: nn.Module) -> Any:
    model(sample())
    twin = pickle.loads(pickle.dumps(model))
    return step(twin), sorted(vars(twin)), sorted(twin.state_dict())


def saved(model: nn.Module) -> Any:
    out = model(sample())
    memory = io.BytesIO()
    torch.save({"model": model.state_dict(), "out": out.detach()}, memory)
    memory.seek(0)
    loaded = torch.load(memory)
    model.load_state_dict(loaded["model"])
    return loaded["out"], model(sample()), len(memory.getvalue())


def changed(model: nn.Module) -> Any:
    first = step(model)
    model.out = nn.Linear(16, 16)
    model.extra = nn.Parameter(torch.zeros(3))
    model.norm = nn.Identity()
    del model.calls
    model.register_buffer("more", torch.ones(2))
    return first, step(model), dict(model.named_parameters()).keys()


def other_types(model: nn.Module) -> Any:
    first = model(sample())
    model.double()
    second = model(sample(dtype=torch.float64))
    model.to(torch.bfloat16)
    return first, second, model(sample(dtype=torch.bfloat16))


def frozen_then_not(model: nn.Module) -> Any:
    model.requires_grad_(requires_grad=False)
    model(sample())
    model.requires_grad_()
    model.zero_grad()
    return step(model)


def replaced_weights(model: nn.Module) -> Any:
    model.q.weight = nn.Parameter(torch.randn(16, 16))  # type: ignore[union-attr]
    model.kv.weight.data = torch.randn(16, 16)  # type: ignore[union-attr]
    return step(model)


def parametrized(model: nn.Module) -> Any:
    parametrizations.weight_norm(model.q)  # type: ignore[arg-type]
    prune.random_unstructured(model.out, "weight", amount=0.3)
    result = step(model)
    parametrize.remove_parametrizations(model.q, "weight")  # type: ignore[arg-type]
    return result, step(model)


WAYS = [
    module_hooks, changing_hooks, hooks_of_all_modules, tensor_hooks, saved_tensors, graph_of,
    deep_copy, pickled, saved, changed, other_types, frozen_then_not, replaced_weights,
    parametrized,
]  # fmt: skip


@pytest.mark.parametrize("run", WAYS, ids=lambda run: run.__name__)
@every_attention
def test_ways_to_treat_a_model(
    run: Callable[[nn.Module], Any], attend: Callable[..., Tensor]
) -> None:
    assert len(undisturbed(partial(Block, attend), run)) >= 1


def test_a_model_with_shared_modules() -> None:
    def build() -> nn.Module:
        stack = Stack(fused)
        stack.blocks[1] = stack.blocks[0]
        return stack

    assert [call.module for call in undisturbed(build, step)] == ["blocks.0"] * 2


def test_a_function_is_recorded() -> None:
    def build() -> Callable[[Tensor], Tensor]:
        model = Block()
        return partial(model)

    trace = undisturbed(build, lambda function: function(sample()))
    assert [call.module for call in trace] == ["Block"]


def test_a_module_that_is_called_by_its_forward() -> None:
    undisturbed(Block, lambda model: model.forward(sample()))
