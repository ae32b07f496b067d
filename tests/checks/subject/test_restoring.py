"""Whatever a run leaves behind in a model is gone when it is over, also when it raised."""

from __future__ import annotations

import logging
import random
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from attnscope.checks.subject.restoring import random_state_kept, restored, seeded


class Slotted:
    __slots__ = ("seen", "unset")

    def __init__(self) -> None:
        self.seen = 0


class Holder:
    def __init__(self) -> None:
        self.past: list[int] = [1]
        self.inner = SimpleNamespace(count=0)


class Model(nn.Module):
    """A model with something of everything that a run may write to."""

    shared: ClassVar[list[int]] = []
    counted = 0

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.norm = nn.BatchNorm1d(3)
        self.table: Tensor
        self.register_buffer("table", torch.zeros(3))
        self.plain = torch.zeros(2)
        self.steps = 0
        self.words = ["a"]
        self.nested: dict[str, Any] = {"list": [1, [2]], "tensor": torch.zeros(2)}
        self.recent: deque[int] = deque([1], maxlen=2)
        self.ordered = OrderedDict(a=1)
        self.tally = Counter(a=1)
        self.made: defaultdict[str, list[int]] = defaultdict(list)
        self.pair = ([1], 2)
        self.names = {"a"}
        self.holder = Holder()
        self.slotted = Slotted()
        self.array = np.zeros(2)
        self.generator = torch.Generator().manual_seed(1)
        self.unlisted = [nn.Linear(2, 2)]

    def forward(self, x: Tensor, memory: list[int] | None = None, kept: list[int] = []) -> Any:  # noqa: B006  the fault that is put back
        del memory
        kept.append(1)
        return self.linear(x)


def set_new_attribute(model: Model) -> None:
    vars(model)["extra"] = 1


def register_new_parts(model: Model) -> None:
    model.register_buffer("later", torch.ones(1))
    model.later_part = nn.Linear(2, 2)


def call_with_default(model: Model) -> None:
    model(torch.zeros(1, 3))


def new_class_attribute(_model: Model) -> None:
    Model.fresh = 1  # type: ignore[attr-defined]


def backward(model: Model) -> None:
    model.linear(torch.ones(1, 3)).sum().backward()


def replaced_data(model: Model) -> None:
    model.linear.weight.data = model.linear.weight.data * 2


def written_data(model: Model) -> None:
    model.linear.weight.data.mul_(2)


def written_in_place(model: Model) -> None:
    with torch.no_grad():
        model.linear.weight.mul_(2)


WRITES: dict[str, tuple[Callable[[Model], Any], Callable[[Model], Any]]] = {
    "mode": (lambda m: m.eval(), lambda m: [each.training for each in m.modules()]),
    "mode of a part": (lambda m: m.norm.eval(), lambda m: [e.training for e in m.modules()]),
    "statistics": (lambda m: m.norm(torch.randn(4, 3)), lambda m: str(m.norm.running_mean)),
    "buffer": (lambda m: m.table.add_(1), lambda m: str(m.table)),
    "plain tensor": (lambda m: m.plain.add_(1), lambda m: m.plain.tolist()),
    "number": (lambda m: setattr(m, "steps", 5), lambda m: m.steps),
    "list": (lambda m: m.words.append("b"), lambda m: list(m.words)),
    "list in a dict": (lambda m: m.nested["list"][1].append(3), lambda m: str(m.nested)),
    "tensor in a dict": (lambda m: m.nested["tensor"].add_(1), lambda m: str(m.nested)),
    "key of a dict": (lambda m: m.nested.update(more=1), lambda m: str(m.nested)),
    "deque": (lambda m: m.recent.extend([2, 3]), lambda m: (list(m.recent), m.recent.maxlen)),
    "ordered dict": (lambda m: m.ordered.update(b=2),
                     lambda m: list(m.ordered)),
    "counter": (lambda m: m.tally.update("ab"), lambda m: dict(m.tally)),
    "defaultdict": (lambda m: m.made["x"].append(1),
                    lambda m: (dict(m.made), m.made.default_factory)),
    "list in a tuple": (lambda m: m.pair[0].append(2), lambda m: str(m.pair)),
    "set": (lambda m: m.names.add("b"), lambda m: set(m.names)),
    "list in an object": (lambda m: m.holder.past.append(2), lambda m: list(m.holder.past)),
    "object in an object": (lambda m: setattr(m.holder.inner, "count", 3),
                            lambda m: m.holder.inner.count),
    "object's new attribute": (lambda m: setattr(m.holder, "new", 3),
                               lambda m: sorted(vars(m.holder))),
    "slot": (lambda m: setattr(m.slotted, "seen", 3), lambda m: m.slotted.seen),
    "slot that was empty": (lambda m: setattr(m.slotted, "unset", 3),
                            lambda m: hasattr(m.slotted, "unset")),
    "array": (lambda m: m.array.fill(3), lambda m: m.array.tolist()),
    "generator": (lambda m: torch.randn(2, generator=m.generator),
                  lambda m: m.generator.get_state().tolist()),
    "module in a plain list": (lambda m: m.unlisted[0].weight.data.zero_(),
                               lambda m: m.unlisted[0].weight.tolist()),
    "new attribute": (set_new_attribute, lambda m: sorted(vars(m))),
    "new parts": (register_new_parts, lambda m: sorted(m.state_dict())),
    "default argument": (call_with_default, lambda m: str(type(m).forward.__defaults__)),
    "list of the class": (lambda m: m.shared.append(1), lambda m: list(m.shared)),
    "number of the class": (lambda m: setattr(type(m), "counted", 3), lambda m: m.counted),
    "new attribute of the class": (new_class_attribute, lambda m: hasattr(m, "fresh")),
    "parameter in place": (written_in_place, lambda m: m.linear.weight.tolist()),
    "parameter behind autograd": (written_data, lambda m: m.linear.weight.tolist()),
    "parameter's memory": (replaced_data,
                           lambda m: (m.linear.weight.tolist(), m.linear.weight.data_ptr())),
    "gradient": (backward, lambda m: m.linear.weight.grad),
    "frozen": (lambda m: m.requires_grad_(requires_grad=False),
               lambda m: m.linear.weight.requires_grad),
}  # fmt: skip


@pytest.mark.parametrize("name", WRITES)
def test_what_a_run_wrote_is_put_back(name: str) -> None:
    write, read = WRITES[name]
    model = Model().train()
    before = read(model)
    with restored(model):
        write(model)
        assert read(model) != before  # otherwise this test could not fail
    assert read(model) == before


@pytest.mark.parametrize("name", ["list", "buffer", "mode"])
def test_what_raises_is_put_back_too(name: str) -> None:
    write, read = WRITES[name]
    model = Model().train()
    before = read(model)
    with pytest.raises(ZeroDivisionError), restored(model):
        _ = write(model), 1 / 0
    assert read(model) == before


def test_a_gradient_that_was_there_stays_the_same_tensor_with_its_values() -> None:
    model = Model()
    backward(model)
    gradient = model.linear.weight.grad
    assert gradient is not None
    values = gradient.clone()
    with restored(model):
        backward(model)
        assert not torch.equal(gradient, values)
    assert model.linear.weight.grad is gradient
    assert torch.equal(gradient, values)


def test_a_parameter_with_not_a_number_stays_as_it_was() -> None:
    model = Model()
    model.linear.weight.data[0, 0] = float("nan")
    with restored(model):
        model.linear.weight.data.zero_()
    assert model.linear.weight.isnan().sum() == 1


def test_a_sparse_buffer_comes_back() -> None:
    model = Model()
    model.table = torch.eye(3).to_sparse()
    with restored(model):
        model.table.mul_(3)
    assert torch.equal(model.table.to_dense(), torch.eye(3))


def held_by_a_method(model: Model) -> Callable[..., Any]:
    return model.forward


def held_by_a_partial(model: Model) -> Callable[..., Any]:
    return partial(model, memory=None)


def held_by_a_closure(model: Model) -> Callable[..., Any]:
    return lambda x: model(x) * 2


def held_by_an_object(model: Model) -> Callable[..., Any]:
    class Runner:
        def __init__(self) -> None:
            self.model = model

        def __call__(self, x: Tensor) -> Any:
            return self.model(x)

    return Runner()


@pytest.mark.parametrize(
    "hold", [held_by_a_method, held_by_a_partial, held_by_a_closure, held_by_an_object]
)
def test_a_model_that_a_function_holds_is_put_back(hold: Callable[..., Any]) -> None:
    model = Model()
    with restored(hold(model)):
        model.words.append("b")
        model.linear.weight.data.zero_()
    assert model.words == ["a"]
    assert bool(model.linear.weight.any())


def test_inputs_are_put_back() -> None:
    ids, batch = torch.tensor([1, 2]), {"x": torch.zeros(2)}
    inputs = {"ids": ids, "batch": batch}
    with restored(len, inputs):
        ids[0] = 9
        batch["x"].add_(1)
        batch["y"] = ids
    assert ids.tolist() == [1, 2]
    assert list(batch) == ["x"]
    assert not batch["x"].any()


def test_random_states_are_as_before() -> None:
    def drawn() -> tuple[float, float, float]:
        return random.random(), float(np.random.rand()), float(torch.rand(()))  # noqa: NPY002, S311  what a model may draw from

    seeded(3)
    first = drawn()
    seeded(3)
    with random_state_kept():
        drawn()
        seeded(99)
    assert drawn() == first


def test_the_grad_mode_and_the_default_type_are_as_before() -> None:
    with restored(Model()):
        torch.set_grad_enabled(False)
        torch.set_default_dtype(torch.float64)
    assert torch.is_grad_enabled()
    assert torch.get_default_dtype() is torch.float32


def test_a_scripted_module_keeps_its_mode() -> None:
    model = torch.jit.script(nn.Sequential(nn.Linear(2, 2), nn.Dropout()))
    with restored(model):
        model.eval()
    assert model.training


def test_objects_of_the_standard_library_are_left_alone() -> None:
    logger = logging.getLogger("attnscope.test")
    model = Model()
    model.nested["logger"] = logger
    with restored(model):
        logger.setLevel(logging.ERROR)
    assert logger.level == logging.ERROR


STEPS, TALLY, LATE = 0, [0], "LATE_NAME"


def _count() -> None:
    global STEPS  # noqa: PLW0603  what is tested
    STEPS += 1
    TALLY[0] += 1


def _counter() -> Callable[[], int]:
    steps = 0

    def step() -> int:
        nonlocal steps
        steps += 1
        return steps

    return step


class Counting(nn.Module):
    """Counts in globals, through a function, a decorated one, and in a closure."""

    def __init__(self) -> None:
        super().__init__()
        self.step = _counter()

    @torch.no_grad()
    def forward(self, x: Tensor) -> Tensor:
        global LATE_NAME  # noqa: PLW0603  what is tested
        LATE_NAME = 1  # type: ignore[name-defined]  # what is tested
        _count()
        self.step()
        return x


def test_globals_and_closures_are_put_back() -> None:
    model = Counting()
    with restored(model):
        model(torch.zeros(1))
        assert (STEPS, TALLY, LATE in globals()) == (1, [1], True)
    assert (STEPS, TALLY, LATE in globals()) == (0, [0], False)
    assert model.step() == 1
