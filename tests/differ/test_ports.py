"""Ports with one fault are told where they differ and by what; sound ones are left in peace.

Of the faults two of each name are run here, in two styles; `benchmarks/ports.py` runs them all.
"""

from __future__ import annotations

from typing import Any

import pytest

import attnscope
from tests.ports import PORTS, SOUND, Port, judge
from tests.ports.unseen import UNSEEN, UNSEEN_SOUND


def first_of_each(ports: tuple[Port, ...]) -> list[Port]:
    """Return one port of each fault."""
    return list({port.key: port for port in reversed(ports)}.values())


every_fault = pytest.mark.parametrize(
    "port", [*first_of_each(PORTS), *first_of_each(UNSEEN)], ids=lambda port: port.name
)
every_sound = pytest.mark.parametrize("port", [*SOUND, *UNSEEN_SOUND], ids=lambda port: port.name)


def verified(port: Port) -> Any:
    pair = port.make()
    return attnscope.verify(
        pair.candidate, pair.reference, inputs=pair.inputs, weights=port.weights
    )


@every_fault
def test_a_fault_is_found_where_it_is_and_named(port: Port) -> None:
    verdict = judge(port, verified(port))
    assert verdict.right, f"wrong: {', '.join(verdict.wrong)}; said: {verdict.said}"


@every_sound
def test_a_sound_port_is_equal(port: Port) -> None:
    result = verified(port)
    assert result.equal, result.first_difference
    assert result.first_difference is None
    assert result.compared > 0
