"""What pairing found: every pair with how, by what and with which proof, and what to do with it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from types import TracebackType

import torch
from torch import Tensor, nn

from attnscope.differ.pairing.arrangement import Arrangement
from attnscope.differ.pairing.gradients import GradientPair, gradient_pairs
from attnscope.differ.pairing.matching import Proof
from attnscope.differ.pairing.names import Method


@dataclass(frozen=True, slots=True)
class Pair:
    """One tensor of the candidate and what it is of the reference.

    candidate: its name; tied: its other names; references: names of the reference's tensors;
    how: the rearrangement in words; method: found by "value", "name", "shape" or "given";
    proof: "equal" (the values correspond), "copied" (they will, after `apply`) or "differs" (the
    candidate's own stay, and are others); largest: the largest difference where they differ;
    why: what the method went by; note: what deserves a look, such as a name that says otherwise.
    """

    candidate: str
    shape: tuple[int, ...]
    references: tuple[str, ...]
    how: str
    method: Method
    proof: Proof
    why: str
    arrangement: Arrangement = field(repr=False)
    tied: tuple[str, ...] = ()
    largest: float = 0.0
    note: str = ""

    def to_json(self) -> dict[str, object]:
        """Return the pair as plain data; `map` is an entry that `map=` reads."""
        return {
            "candidate": self.candidate,
            "tied": list(self.tied),
            "shape": list(self.shape),
            "reference": list(self.references),
            "how": self.how,
            "method": self.method,
            "proof": self.proof,
            "largest": self.largest,
            "why": self.why,
            "note": self.note,
            "map": self.arrangement.to_json(),
        }


@dataclass(frozen=True, slots=True)
class Left:
    """A tensor, of "candidate" or "reference", without counterpart, and why that is no error."""

    side: str
    name: str
    shape: tuple[int, ...]
    why: str

    def to_json(self) -> dict[str, object]:
        """Return it as plain data."""
        return {"side": self.side, "name": self.name, "shape": list(self.shape), "why": self.why}


@dataclass(frozen=True, eq=False)
class WeightMap:
    """Every tensor of the candidate with its counterpart in the reference.

    pairs: in the candidate's order; left: what has no counterpart; unpaired: what should have
    one (empty unless `pair` was told not to be strict).
    """

    pairs: tuple[Pair, ...]
    left: tuple[Left, ...]
    unpaired: tuple[Left, ...]
    dtype: torch.dtype
    _candidate: Mapping[str, Tensor] = field(repr=False)
    _reference: Mapping[str, Tensor] = field(repr=False)
    _copies: Mapping[str, Arrangement] = field(repr=False)

    def __len__(self) -> int:
        """Return the number of pairs."""
        return len(self.pairs)

    def __iter__(self) -> Iterator[Pair]:
        """Go through the pairs."""
        return iter(self.pairs)

    def __getitem__(self, name: str) -> Pair:
        """Return the pair of one tensor of the candidate, by any of its names."""
        return next(pair for pair in self.pairs if name in {pair.candidate, *pair.tied})

    @property
    def copied(self) -> tuple[Pair, ...]:
        """The pairs whose values `apply` copies."""
        return tuple(pair for pair in self.pairs if pair.proof == "copied")

    @property
    def differing(self) -> tuple[Pair, ...]:
        """The pairs whose values differ, and stay so."""
        return tuple(pair for pair in self.pairs if pair.proof == "differs")

    def value(self, name: str) -> Tensor:
        """Return the reference's values laid out as one tensor of the candidate."""
        return self[name].arrangement.of(self._reference).detach()

    def apply(self, candidate: nn.Module | None = None) -> Restored:
        """Copy the reference's values into the candidate, in place.

        Args:
            candidate: the model that was paired, or one just like it; by default the former.

        Returns:
            What gives the candidate its own values back: by `restore()`, or at the end of a
            `with` statement.

        Example:
            >>> from attnscope.differ.weights import pair
            >>> mine, theirs = nn.Linear(4, 2), nn.Linear(4, 2)
            >>> with pair(mine, theirs).apply():
            ...     torch.equal(mine.weight, theirs.weight)
            True
            >>> torch.equal(mine.weight, theirs.weight)
            False
        """
        targets = self._candidate
        if candidate is not None:
            targets = {**candidate.state_dict(keep_vars=True), **dict(candidate.named_parameters())}
        own = {}
        with torch.no_grad():
            for one in self.copied:
                tensor = targets[one.candidate]
                own[one.candidate] = (tensor, tensor.detach().clone())
                tensor.copy_(one.arrangement.of(self._reference))
        return Restored(tuple(own.values()))

    def gradient_pairs(self) -> tuple[GradientPair, ...]:
        """Return which gradients can be compared, and how the reference's are laid out.

        Pairs whose values differ are left out, and so are buffers.
        """
        arrangements = {
            pair.candidate: pair.arrangement
            for pair in self.pairs
            if pair.proof != "differs"
            and pair.references
            and isinstance(self._candidate[pair.candidate], nn.Parameter)
        }
        shapes = {name: tuple(tensor.shape) for name, tensor in self._reference.items()}
        return gradient_pairs(arrangements, shapes, self._copies)

    def checksums(self) -> dict[str, tuple[str, str]]:
        """Return SHA-256 of each pair's values: the candidate's, the reference's laid out alike.

        Both are taken in the coarser of the two models' float types.
        """
        return {
            pair.candidate: (
                _sha(self._candidate[pair.candidate], self.dtype),
                _sha(pair.arrangement.of(self._reference), self.dtype) if pair.references else "",
            )
            for pair in self.pairs
        }

    def rows(self) -> list[tuple[str, str, str, str, str, str]]:
        """Return the table: candidate, reference, how, method, proof, note; then what is left."""
        table: list[tuple[str, str, str, str, str, str]] = [
            (
                " = ".join((pair.candidate, *pair.tied)),
                " + ".join(pair.references),
                pair.how,
                pair.method,
                _proof_in_words(pair),
                pair.note,
            )
            for pair in self.pairs
        ]
        for left in (*self.left, *self.unpaired):
            sides = (left.name, "") if left.side == "candidate" else ("", left.name)
            table.append((*sides, "", "", "no counterpart", left.why))
        return table

    def to_json(self) -> dict[str, object]:
        """Return the map as plain data."""
        return {
            "dtype": str(self.dtype).removeprefix("torch."),
            "pairs": [pair.to_json() for pair in self.pairs],
            "left": [left.to_json() for left in self.left],
            "unpaired": [left.to_json() for left in self.unpaired],
        }

    def as_map(self) -> dict[str, object]:
        """Return the pairs as a dict that `map=` (or a JSON file of it) reads again."""
        entries: dict[str, object] = {
            pair.candidate: pair.arrangement.to_json() for pair in self.pairs
        }
        entries |= {left.name: None for left in self.left if left.side == "candidate"}
        entries["ignore"] = [left.name for left in self.left if left.side == "reference"]
        return entries

    def __str__(self) -> str:
        """Return the table as aligned plain text."""
        table = [("candidate", "reference", "how", "by", "proof", ""), *self.rows()]
        widths = [max(len(row[column]) for row in table) for column in range(5)]
        return "\n".join(
            "  ".join(
                [*(cell.ljust(w) for cell, w in zip(row, widths, strict=False)), row[5]]
            ).rstrip()
            for row in table
        )


class Restored(AbstractContextManager["Restored"]):
    """The candidate's own values, to be given back once."""

    def __init__(self, own: tuple[tuple[Tensor, Tensor], ...]) -> None:
        self._own = own

    def __len__(self) -> int:
        """Return how many tensors were changed."""
        return len(self._own)

    def restore(self) -> None:
        """Give the candidate its own values back; a second time changes nothing."""
        with torch.no_grad():
            for tensor, value in self._own:
                tensor.copy_(value)
        self._own = ()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Restore, after an exception too."""
        self.restore()


def _proof_in_words(pair: Pair) -> str:
    if pair.proof == "differs":
        return f"differs by up to {pair.largest:.3g}, left so"
    return {"equal": "equal values", "copied": "copied"}[pair.proof]


def _sha(tensor: Tensor, dtype: torch.dtype) -> str:
    value = tensor.detach().to("cpu", dtype) if tensor.is_floating_point() else tensor.cpu()
    return hashlib.sha256(
        value.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
    ).hexdigest()
