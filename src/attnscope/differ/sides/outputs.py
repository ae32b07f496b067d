"""The tensors that a model returns, by name, whatever it wraps them in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

__all__ = ["OutputPair", "compared_outputs", "outputs_of"]

MAIN = "output"
"""The name of the first output."""

_NOT_COMPARED = ("past_key_values", "cache", "loss", "attentions", "hidden_states")


@dataclass(frozen=True, slots=True, eq=False)
class OutputPair:
    """One output of both sides: (candidate, reference)."""

    name: str
    sides: tuple[Tensor, Tensor]

    @property
    def part(self) -> str:
        """The name where it says something: nothing for the main output."""
        return "" if self.name == MAIN else self.name


def outputs_of(output: Any) -> dict[str, Tensor]:
    """Return the float tensors of an output; the first is the main one."""
    if isinstance(output, Tensor):
        return {MAIN: output}
    if isinstance(output, Mapping):
        named = {str(key): value for key, value in output.items()}
    elif isinstance(output, (tuple, list)):
        named = {f"output[{at}]": value for at, value in enumerate(output)}
    elif hasattr(output, "__dict__"):
        named = dict(vars(output))
    else:
        named = {}
    return {
        name: value
        for name, value in named.items()
        if isinstance(value, Tensor)
        and value.is_floating_point()
        and not any(word in name for word in _NOT_COMPARED)
    }


def compared_outputs(candidate: Any, reference: Any) -> tuple[OutputPair, ...]:
    """Pair the outputs of two sides: the main ones, and further ones of one name and shape."""
    ours, theirs = outputs_of(candidate), outputs_of(reference)
    if not ours or not theirs:
        return ()
    main = next(iter(theirs))
    mine = main if main in ours else next(iter(ours))
    pairs = [OutputPair(MAIN, (ours[mine], theirs[main]))]
    for name, value in theirs.items():
        other = ours.get(name)
        if name != main and other is not None and other.shape == value.shape:
            pairs.append(OutputPair(name, (other, value)))
    return tuple(pairs)
