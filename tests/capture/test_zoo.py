"""Programs as people write them run as without attnscope, and no softmax is passed over."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from attnscope.calls import Call, Trace
from attnscope.calls.tolerance import replay
from attnscope.capture import record
from attnscope.capture.functions import operation_name
from attnscope.capture.provenance import ancestors
from attnscope.capture.recorded import RecordedEvidence
from attnscope.capture.softmaxes import is_softmax
from attnscope.targets import importing_from, resolve

ZOO = Path(__file__).parents[1] / "zoo" / "programs"
EVERY = 2
"""One program in so many is run: all of them take more than a minute."""
PROGRAMS = sorted(ZOO.glob("*/*.py"))[::EVERY]
ADDITIVE = ("sound/gat_dense_adjacency.py", "sound/pointer_generator_renormalised.py")
POOLING = ("sound/mil_gated_pooling.py", "structure/mil_gated_pool.py")

Place = tuple[str, int]
Outcome = tuple[list[Tensor], str, Tensor]


class SoftmaxPlaces(TorchFunctionMode):
    """Writes down the lines outside of PyTorch on which a softmax is called."""

    def __init__(self) -> None:
        super().__init__()
        self.places: Counter[Place] = Counter()

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Run a function, counted where it is a softmax."""
        if is_softmax(operation_name(func)):
            frame = sys._getframe(1)
            while frame.f_code.co_filename.startswith(str(Path(torch.__file__).parent)):
                assert frame.f_back is not None
                frame = frame.f_back
            self.places[frame.f_code.co_filename, frame.f_lineno] += 1
        return func(*args, **(kwargs or {}))


@dataclass(frozen=True)
class Both:
    """A program's run without and with attnscope, and where it called softmaxes."""

    plain: Outcome
    watched: Outcome
    trace: Trace
    softmaxes: Counter[Place]


def leaves(tree: Any) -> Iterator[Tensor]:
    """Iterate over the tensors of any output."""
    if isinstance(tree, Tensor):
        yield tree
    elif isinstance(tree, Mapping):
        for item in tree.values():
            yield from leaves(item)
    elif isinstance(tree, (tuple, list)):
        for item in tree:
            yield from leaves(item)


def outcome(model: nn.Module, inputs: Any) -> Outcome:
    """Run a model: its tensors, what it raised, the random state afterwards."""
    torch.manual_seed(11)
    raised = ""
    output: Any = ()
    try:
        if isinstance(inputs, dict):
            output = model(**inputs)
        else:
            output = model(*inputs) if isinstance(inputs, tuple) else model(inputs)
    except Exception as error:  # noqa: BLE001  faulty programs may raise anything
        raised = f"{type(error).__name__}: {error}"
    return list(leaves(output)), raised, torch.get_rng_state()


def both(file: Path) -> Both:
    """Run a program twice from its source, with the same seed: not all set one themselves."""
    torch.manual_seed(0)
    target = resolve(str(file))
    with importing_from(target.folder), SoftmaxPlaces() as counted:
        plain = outcome(target.model, target.inputs)
    torch.manual_seed(0)
    target = resolve(str(file))
    with importing_from(target.folder), record(target.model) as trace:
        watched = outcome(target.model, target.inputs)
    return Both(plain, watched, trace, counted.places)


def claimed(calls: list[Call]) -> Counter[Place]:
    """Lines of the softmaxes that calls are made of."""
    nodes = {
        node.sequence: node
        for call in calls
        if isinstance(call.evidence, RecordedEvidence)
        for node in ancestors([call.evidence.weights.node])
        if is_softmax(node.name)
    }
    return Counter((node.source.file, node.source.line) for node in nodes.values())


def bound(call: Call) -> float:
    """How far the replay of a call may be off: recorded operations give the very bits."""
    return 0.0 if call.kind == "eager" else replay(call.q.dtype, call.keys, call.head_dim)


@pytest.mark.filterwarnings("ignore")  # whatever the programs of other people warn of
@pytest.mark.parametrize("file", PROGRAMS, ids=lambda file: "/".join(file.parts[-2:]))
def test_program_runs_as_without_and_is_accounted_for(file: Path) -> None:
    it = both(file)
    (plain, raised, random), (watched, raised_too, random_too) = it.plain, it.watched
    assert raised_too == raised
    assert len(watched) == len(plain)
    assert all(
        torch.equal(a.nan_to_num(), b.nan_to_num()) for a, b in zip(plain, watched, strict=True)
    )
    assert torch.equal(random, random_too)
    for call in it.trace:
        error = call.replay_error
        assert error is not None
        assert error <= bound(call), f"{call.module}: {call.kind}"
    others = Counter((other.source.file, other.source.line) for other in it.trace.others)
    left_out = it.softmaxes - claimed(it.trace.calls) - others
    assert raised or it.trace.unseen or not left_out


@pytest.mark.parametrize(
    ("name", "role"), [*((n, "additive") for n in ADDITIVE), *((n, "pooling") for n in POOLING)]
)
def test_weights_without_a_product_are_named(name: str, role: str) -> None:
    trace = both(ZOO / name).trace
    assert len(trace) == 0
    assert role in {other.role for other in trace.others}
    assert "similarity" not in {other.role for other in trace.others}
    assert not trace.unseen


def test_the_count_of_softmaxes_can_fail() -> None:
    """What neither a call nor a name accounts for is left over."""
    it = both(ZOO / POOLING[0])
    assert it.softmaxes - claimed(it.trace.calls)
