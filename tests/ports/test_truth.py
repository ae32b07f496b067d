"""The faulty ports are wrong, the sound ones right, and what is said about them is well formed."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tests.ports import PORTS, SOUND, Port
from tests.ports.case import run
from tests.ports.unseen import UNSEEN, UNSEEN_SOUND

KEYS = frozenset(
    "scale mask-missing mask-inverted mask-corner mask-shifted mask-as-bias mask-fill mask-axis "
    "mask-after-softmax window softmax-axis normaliser kv-heads-tiled rotary-pairing rotary-base "
    "rotary-share rotary-missing positions-shifted dropout softcap sinks bias-sign bias-slope "
    "bias-missing q-k-swapped k-for-v split-order weight-transposed projection-bias "
    "heads-permuted heads-by-view merge-by-view norm-place norm-missing norm-eps residual-missing "
    "residual-doubled weights-factor rounding gradient-stopped".split()
)
FINER = frozenset("bias-heads bias-scaled mask-extra qk-norm residual-place".split())
"""More exact names of some of them."""

STAGES = frozenset("input q k v raw_scores scores weights context output model".split())
ALL, ALL_SOUND = (*PORTS, *UNSEEN), (*SOUND, *UNSEEN_SOUND)
ROUNDING = 1e-5
BFLOAT16 = 0.2  # through six layers

every_port = pytest.mark.parametrize("port", ALL, ids=lambda port: port.name)
every_sound = pytest.mark.parametrize("port", ALL_SOUND, ids=lambda port: port.name)
with_weights = pytest.mark.parametrize(
    "port",
    [port for port in ALL_SOUND if "copied-by-name" not in port.name],
    ids=lambda port: port.name,
)


def gap(one: Tensor, two: Tensor) -> float:
    return (one.double() - two.double()).abs().max().item()


def gradients(side: object, inputs: object) -> list[Tensor | None]:
    """Gradients of the parameters, or of the inputs where there are none."""
    assert isinstance(inputs, tuple)
    leaves = [x.clone().requires_grad_() if x.is_floating_point() else x for x in inputs]
    output = run(side, tuple(leaves))
    wanted = [x for x in leaves if x.is_floating_point()]
    if not wanted:
        assert isinstance(side, torch.nn.Module)
        wanted = [p for p in side.parameters() if p.ndim > 1]
    generator = torch.Generator().manual_seed(4)
    return list(
        torch.autograd.grad(
            (output * torch.randn(output.shape, generator=generator)).sum(),
            wanted,
            allow_unused=True,
        )
    )


def test_the_ports_are_many_and_their_names_are_unique() -> None:
    names = [port.name for port in (*ALL, *ALL_SOUND)]
    assert len(names) == len(set(names))
    assert len(PORTS) >= 40
    assert len(UNSEEN) >= len(ALL) / 3


def test_every_fault_is_written_in_two_styles_or_more() -> None:
    for key in KEYS:
        styles = {(port.reference, port.style) for port in ALL if port.key == key}
        assert len(styles) >= 2, key


@every_port
def test_what_is_said_of_a_fault_is_well_formed(port: Port) -> None:
    assert port.key in KEYS
    assert set(port.also) <= KEYS | FINER
    assert port.says
    assert {stage.removeprefix("grad.") for stage in port.stages} <= STAGES


@every_port
def test_a_faulty_port_computes_something_else(port: Port) -> None:
    pair = port.make()
    before = gap(run(pair.candidate, pair.inputs), run(pair.reference, pair.inputs))
    if port.key != "gradient-stopped":
        assert before > 20 * ROUNDING
        return
    assert before < ROUNDING
    ours = gradients(pair.candidate, pair.inputs)
    theirs = gradients(pair.reference, pair.inputs)
    norm = sum(float(g.square().sum()) for g in ours if g is not None)
    other = sum(float(g.square().sum()) for g in theirs if g is not None)
    assert abs(norm - other) > 1e-3 * other


@with_weights
def test_a_sound_port_computes_the_same(port: Port) -> None:
    pair = port.make()
    limit = BFLOAT16 if "bfloat16" in port.name else ROUNDING
    assert gap(run(pair.candidate, pair.inputs), run(pair.reference, pair.inputs)) < limit


@every_sound
def test_a_port_is_the_same_every_time(port: Port) -> None:
    one, two = port.make(), port.make()
    assert torch.equal(run(one.reference, one.inputs), run(two.reference, two.inputs))
