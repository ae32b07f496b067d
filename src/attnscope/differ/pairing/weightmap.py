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
from attnscope.differ.pairing.tensors import made_of, value_of
from attnscope.differ.pairing.values import rounded
from attnscope.errors import InputError


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
    _owners: Mapping[str, nn.Module] = field(repr=False)  # of tensors that parametrizations make

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
        own: list[tuple[Tensor, Tensor]] = []
        with torch.no_grad():
            for one in self.copied:
                value = one.arrangement.of(self._reference)
                owner = self._owners.get(one.candidate)
                if owner is not None:
                    path, _, leaf = one.candidate.rpartition(".")
                    owner = owner if candidate is None else candidate.get_submodule(path)
                    own += [(tensor, tensor.clone()) for tensor in made_of(owner, leaf).buffers()]
                    own += [(part, part.clone()) for part in made_of(owner, leaf).parameters()]
                    _assign(owner, leaf, value, one.candidate)
                    continue
                tensor = targets[one.candidate]
                own.append((tensor, tensor.detach().clone()))
                tensor.data.copy_(value)  # unnoticed by a graph that holds it
        return Restored(tuple(own))

    def gradient_pairs(self) -> tuple[GradientPair, ...]:
        """Return which gradients can be compared, and how the reference's are laid out.

        Pairs whose values differ are left out, and so are buffers and what a parametrization makes.
        """
        arrangements = {
            pair.candidate: pair.arrangement
            for pair in self.pairs
            if pair.proof != "differs"
            and pair.references
            and isinstance(self._candidate[pair.candidate], nn.Parameter)
            and all(isinstance(self._reference[name], nn.Parameter) for name in pair.references)
        }
        shapes = {name: tuple(tensor.shape) for name, tensor in self._reference.items()}
        return gradient_pairs(arrangements, shapes, self._copies)

    def checksums(self) -> dict[str, tuple[str, str]]:
        """Return SHA-256 of each pair's values: the candidate's, the reference's laid out alike.

        Both are taken in the coarser of the two models' float types. What a parametrization makes
        has the reference's where the two agree within rounding.
        """
        found = {}
        for pair in self.pairs:
            ours, theirs = self._now(pair.candidate), pair.arrangement.of(self._reference)
            if pair.candidate in self._owners and rounded(ours, theirs, self.dtype):
                ours = theirs
            sums = (_sha(ours, self.dtype), _sha(theirs, self.dtype) if pair.references else "")
            found[pair.candidate] = sums
        return found

    def _now(self, name: str) -> Tensor:
        """Return one tensor of the candidate, as its layer makes it now."""
        owner = self._owners.get(name)
        leaf = name.rpartition(".")[2]
        return self._candidate[name] if owner is None else value_of(owner, leaf)

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
                tensor.data.copy_(value)  # unnoticed by a graph that holds it
        self._own = ()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Restore, after an exception too."""
        self.restore()


def _assign(owner: nn.Module, leaf: str, value: Tensor, name: str) -> None:
    """Set a tensor that a parametrization makes, by the parametrization's inverse."""
    try:
        setattr(owner, leaf, value.clone())
    except (NotImplementedError, RuntimeError, ValueError) as error:
        raise InputError(
            "copying the weights",
            f"{name} is made by a parametrization that has no inverse for these values: {error}",
            'give the parametrization a right_inverse, or load the values and use weights="keep"',
        ) from error


def _proof_in_words(pair: Pair) -> str:
    if pair.proof == "differs":
        return f"differs by up to {pair.largest:.3g}, left so"
    return {"equal": "equal values", "copied": "copied"}[pair.proof]


def _sha(tensor: Tensor, dtype: torch.dtype) -> str:
    value = tensor.detach().to("cpu", dtype) if tensor.is_floating_point() else tensor.cpu()
    return hashlib.sha256(
        value.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
    ).hexdigest()
