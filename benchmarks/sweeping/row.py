"""What the sweep knows about one architecture in one setting: a row, as it is stored."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from attnscope.calls.normalisers import NORMALISERS

_DIGITS = 4

Status = Literal[
    "measured", "not built", "does not run", "recording raises", "crashed", "timed out"
]


@dataclass(frozen=True, slots=True)
class Setting:
    """How a model is run: attention implementation (None: the model's default), train or eval.

    Eval runs under `no_grad`; train runs a backward from the sum of all outputs.
    """

    name: str
    attention: str | None
    train: bool


EAGER = Setting("eager", "eager", train=False)
DEFAULT = Setting("default", None, train=False)
TRAINING = Setting("training", "eager", train=True)
SETTINGS = (EAGER, DEFAULT, TRAINING)


@dataclass(frozen=True, slots=True)
class Spot:
    """One thing worth naming: where, how often, and what about it."""

    source: str
    count: int
    text: str


@dataclass(slots=True)
class Row:
    """One architecture in one setting.

    error: why it was not measured.
    changed: what differed between the plain and the recorded run, that two plain runs share.
    restless: what differs between two plain runs of the same model.
    softmaxes: softmaxes and fused attentions that PyTorch ran, counted below attnscope.
    exact: calls that replay as well as they must (bit for bit where hand-written, within the
        tolerance of the arithmetic where fused); blank: calls without values to compare.
    bare: eager calls in whose operations PyTorch ran no softmax; each has to be another normaliser.
    misses: calls that replay worse; raises: calls whose replay raises; unknown: recipe parts.
    others: softmaxes that are not attention, with their roles; disputed: those of them whose
        line is attention elsewhere in the same run; unaccounted: softmaxes that are neither.
    doubled: more softmaxes accounted for at a line than PyTorch ran there.
    """

    architecture: str
    setting: str
    status: Status = "measured"
    error: str = ""
    model_class: str = ""
    changed: list[str] = field(default_factory=list)
    restless: list[str] = field(default_factory=list)
    softmaxes: int = 0
    calls: int = 0
    kinds: dict[str, int] = field(default_factory=dict)
    exact: int = 0
    blank: int = 0
    bare: list[Spot] = field(default_factory=list)
    misses: list[Spot] = field(default_factory=list)
    raises: list[Spot] = field(default_factory=list)
    unknown: list[Spot] = field(default_factory=list)
    others: list[Spot] = field(default_factory=list)
    disputed: list[Spot] = field(default_factory=list)
    unaccounted: list[Spot] = field(default_factory=list)
    doubled: list[Spot] = field(default_factory=list)
    unseen: list[Spot] = field(default_factory=list)
    seconds_plain: float = 0.0
    seconds_recorded: float = 0.0
    seconds_replay: float = 0.0

    @property
    def phantoms(self) -> list[Spot]:
        """Calls with neither a softmax nor another normaliser that has a name."""
        return [spot for spot in self.bare if spot.text not in NORMALISERS]

    @property
    def faults(self) -> list[str]:
        """Names of the promises that were not kept."""
        held = {
            "recording raises": self.status != "recording raises",
            "changed": not self.changed,
            "replay differs": not self.misses,
            "replay raises": not self.raises,
            "recipe unknown": not self.unknown,
            "call is no attention": not self.phantoms,
            "softmax unaccounted": not self.unaccounted,
            "softmax disputed": not self.disputed,
            "softmax counted twice": not self.doubled,
        }
        return [name for name, kept in held.items() if not kept]

    def to_json(self) -> dict[str, Any]:
        """Return the fields that say something: empty ones and zeros are left out."""
        fields = {name: value for name, value in asdict(self).items() if value}
        seconds = {name: round(fields[name], _DIGITS) for name in fields if "seconds" in name}
        return fields | seconds


_SPOTS = (
    "bare",
    "misses",
    "raises",
    "unknown",
    "others",
    "disputed",
    "unaccounted",
    "doubled",
    "unseen",
)


def from_json(fields: dict[str, Any]) -> Row:
    """Return the row that `Row.to_json` wrote."""
    spots = {name: [Spot(**spot) for spot in fields.get(name, ())] for name in _SPOTS}
    return Row(**(fields | spots))
