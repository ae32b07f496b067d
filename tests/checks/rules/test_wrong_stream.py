"""AS107: cross-attention that reads its own sequence, at the call that loses the other one."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from tests.checks.marks import marked
from tests.checks.rules.by_scores import features, found, line_of, only

INPUTS = {"x": features(), "memory": features(length=11, seed=1)}


class Layer(nn.Module):
    def __init__(self, *, gate: float = 1.0) -> None:
        super().__init__()
        self.own = nn.MultiheadAttention(24, 3, batch_first=True)
        self.cross = nn.MultiheadAttention(24, 3, batch_first=True)
        self.gate = nn.Parameter(torch.tensor(gate))

    def forward(self, x: Tensor, memory: Tensor) -> Tensor:
        x = x + self.own(x, x, x, need_weights=False)[0]
        return x + self.gate * self.cross(x, memory, memory, need_weights=False)[0]  # type: ignore[no-any-return]


class ReadsItself(Layer):
    def forward(self, x: Tensor, memory: Tensor) -> Tensor:
        x = x + self.own(x, x, x, need_weights=False)[0] * len(memory) / len(x)
        return x + self.cross(x, x, x, need_weights=False)[0]  # type: ignore[no-any-return]  # reads itself


class Outer(nn.Module):
    def __init__(self, *, right: bool) -> None:
        super().__init__()
        self.layer, self.right = Layer(), right

    def forward(self, x: Tensor, memory: Tensor) -> Tensor:
        if self.right:
            return self.layer(x, memory)  # type: ignore[no-any-return]
        return self.layer(x, x)  # type: ignore[no-any-return]  # handed on


def test_the_call_that_hands_on_the_wrong_sequence() -> None:
    finding = only("AS107", ReadsItself(), INPUTS)
    assert (finding.severity, finding.evidence["sequence"]) == ("error", "memory")
    assert finding.evidence["output_moves_by"] == 0.0
    assert line_of(finding) == marked(__file__, "reads itself")


def test_the_outermost_module_that_no_longer_gets_it() -> None:
    finding = only("AS107", Outer(right=False), INPUTS)
    assert line_of(finding) == marked(__file__, "handed on")


def test_a_memory_that_is_read_is_right_even_behind_a_closed_gate() -> None:
    assert not found("AS107", Layer(), INPUTS)
    assert not found("AS107", Layer(gate=0.0), INPUTS)
    assert not found("AS107", Outer(right=True), INPUTS)


class Target(nn.Module):
    """One candidate asks a history, whose values are its own or the candidate's."""

    def __init__(self, *, own: bool) -> None:
        super().__init__()
        self.own = own
        self.q, self.k, self.v = (nn.Linear(24, 24) for _ in range(3))

    def forward(self, x: Tensor, memory: Tensor) -> Tensor:
        q, k = self.q(x[:, :1]), self.k(memory)
        v = self.v(memory) if self.own else self.v(x[:, :1]).expand_as(k)  # values
        return (q @ k.mT / 24**0.5).softmax(-1) @ v  # type: ignore[no-any-return]


def test_values_of_the_query_itself_are_told_at_their_projection() -> None:
    finding = only("AS107", Target(own=False), INPUTS)
    assert line_of(finding) == marked(__file__, "values")
    assert "one and the same" in finding.message
    assert not found("AS107", Target(own=True), INPUTS)


class Slots(nn.Module):
    """An encoder, and learned slots that should read it."""

    def __init__(self, *, right: bool) -> None:
        super().__init__()
        self.right = right
        self.slots = nn.Parameter(torch.randn(1, 4, 24))
        self.own = nn.MultiheadAttention(24, 3, batch_first=True)
        self.cross = nn.MultiheadAttention(24, 3, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        x = self.own(x, x, x)[0]
        q = self.slots.expand(len(x), -1, -1)
        if self.right:
            return self.cross(q, x, x)[0]  # type: ignore[no-any-return]
        return self.cross(q, q, q)[0]  # type: ignore[no-any-return]  # slots alone


def test_an_output_that_no_input_has_a_way_to() -> None:
    finding = only("AS107", Slots(right=False), {"x": features()})
    assert line_of(finding) == marked(__file__, "slots alone")
    assert "no output depends on it" in finding.message
    assert not found("AS107", Slots(right=True), {"x": features()})


class Prompted(nn.Module):
    """Learned queries read a picture, told by a prompt beside them; where they go is left out."""

    def __init__(self) -> None:
        super().__init__()
        self.queries = nn.Parameter(torch.randn(1, 4, 24))
        self.own = nn.MultiheadAttention(24, 3, batch_first=True)
        self.cross = nn.MultiheadAttention(24, 3, batch_first=True)

    def forward(self, x: Tensor, prompt: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        both = torch.cat((self.queries.expand(len(x), -1, -1), prompt), 1)
        both = both + self.own(both, both, both, need_weights=False)[0]
        seen = self.cross(both, memory, memory, need_weights=False)[0]
        return x + 0.0 * seen.mean(1, keepdim=True), memory.mean(1)


def test_a_call_that_reads_the_memory_it_is_there_for_is_right() -> None:
    inputs = INPUTS | {"prompt": features(length=5, seed=2)}
    assert not found("AS107", Prompted().eval(), inputs)


class TwoMemories(nn.Module):
    """Reads a picture and, in `right`, a text."""

    def __init__(self, *, right: bool) -> None:
        super().__init__()
        self.cross_picture = nn.MultiheadAttention(24, 3, batch_first=True)
        self.cross_text = nn.MultiheadAttention(24, 3, batch_first=True)
        self.right = right

    def forward(self, x: Tensor, memory: Tensor, text: Tensor) -> Tensor:
        x = x + self.cross_picture(x, memory, memory, need_weights=False)[0]
        other = text if self.right else memory
        return x + self.cross_text(x, other, other, need_weights=False)[0]  # type: ignore[no-any-return]


def test_one_of_two_calls_that_read_the_same_memory_was_meant_for_the_other() -> None:
    inputs = INPUTS | {"text": features(length=5, seed=2)}
    assert only("AS107", TwoMemories(right=False), inputs).evidence["sequence"] == "text"
    assert not found("AS107", TwoMemories(right=True), inputs)


class Dummy(Layer):
    def forward(self, x: Tensor, memory: Tensor, text: Tensor) -> Tensor:  # type: ignore[override]
        del text  # taken for the sake of an interface
        return super().forward(x, memory)


def test_a_sequence_that_nothing_is_there_for_is_not_astray() -> None:
    assert not found("AS107", Dummy(), INPUTS | {"text": features(length=5, seed=2)})


class Halves(nn.Module):
    """Keys and values that may come from two sequences of one length."""

    def __init__(self, keys: str, values: str) -> None:
        super().__init__()
        self.keys, self.values = keys, values
        self.q, self.k, self.v = (nn.Linear(24, 24) for _ in range(3))

    def forward(self, x: Tensor, memory: Tensor) -> Tensor:
        given = {"x": x, "memory": memory}
        q = self.q(x)
        k = self.k(given[self.keys])  # keys
        v = self.v(given[self.values])  # own values
        return (q @ k.mT / 24**0.5).softmax(-1) @ v  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("keys", "values", "mark"), [("memory", "x", "own values"), ("x", "memory", "keys")]
)
def test_keys_and_values_of_two_sequences(keys: str, values: str, mark: str) -> None:
    inputs = {"x": features(), "memory": features(seed=1)}
    finding = only("AS107", Halves(keys, values), inputs)
    assert (finding.evidence["keys_from"], finding.evidence["values_from"]) == (keys, values)
    assert line_of(finding) == marked(__file__, mark)
    assert not found("AS107", Halves("memory", "memory"), inputs)


class Unnamed(Halves):
    """The other sequence is not called a memory: features and coordinates, say."""

    def forward(self, x: Tensor, places: Tensor) -> Tensor:
        return super().forward(x, places)


def test_two_sequences_of_which_none_is_a_memory() -> None:
    inputs = {"x": features(), "places": features(seed=1)}
    assert not found("AS107", Unnamed("x", "memory"), inputs)


class Handed(nn.Module):
    """A module without a telling name that is handed a sequence."""

    def __init__(self, *, right: bool) -> None:
        super().__init__()
        self.right = right
        self.wq, self.wk, self.wv = (nn.Linear(24, 24) for _ in range(3))

    def forward(self, x: Tensor, prompt: Tensor) -> Tensor:
        read = prompt if self.right else x
        q, v = self.wq(x), self.wv(read)
        k = self.wk(read)  # handed and not read
        return (q @ k.mT / 24**0.5).softmax(-1) @ v  # type: ignore[no-any-return]


class Around(nn.Module):
    def __init__(self, *, right: bool) -> None:
        super().__init__()
        self.mix = nn.TransformerEncoderLayer(24, 3, 48, batch_first=True)
        self.second = Handed(right=right)

    def forward(self, x: Tensor, prompt: Tensor) -> Tensor:
        return self.second(self.mix(x), prompt)  # type: ignore[no-any-return]


def test_a_module_that_is_handed_the_sequence_and_reads_itself() -> None:
    inputs = {"x": features(), "prompt": features(length=5, seed=1)}
    finding = only("AS107", Around(right=False).eval(), inputs)
    assert line_of(finding) == marked(__file__, "handed and not read")
    assert not found("AS107", Around(right=True).eval(), inputs)


class Modulated(nn.Module):
    """A block that is handed a sequence for its gate, which starts at zero."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.gate = nn.Linear(24, 72), nn.Linear(24, 24)
        nn.init.zeros_(self.gate.weight)
        nn.init.zeros_(self.gate.bias)

    def forward(self, x: Tensor, prompt: Tensor) -> Tensor:
        q, k, v = self.qkv(x).chunk(3, -1)
        gate = self.gate(prompt.mean(1, keepdim=True))
        return x + gate * ((q @ k.mT / 24**0.5).softmax(-1) @ v)  # type: ignore[no-any-return]


class AroundModulated(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.TransformerEncoderLayer(24, 3, 48, batch_first=True)
        self.block = Modulated()

    def forward(self, x: Tensor, prompt: Tensor) -> Tensor:
        return self.block(self.mix(x), prompt)  # type: ignore[no-any-return]


def test_a_sequence_that_a_closed_gate_reads_is_not_astray() -> None:
    inputs = {"x": features(), "prompt": features(length=5, seed=1)}
    assert not found("AS107", AroundModulated().eval(), inputs)
