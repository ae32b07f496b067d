"""The smallest inputs on which two sides still differ for the same reason, to be looked at by hand.

Samples go first, then tokens from the end and from the beginning; of plain functions heads,
queries, keys and features, too; of models that are built from a config, layers and heads. Sizes
are found by halving, and a smaller one is taken only where the first difference keeps its
explanation (or its stage, where it has none).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from attnscope.differ.cases.made import Plain
from attnscope.differ.cases.varying import Arrangement, arrange
from attnscope.differ.result import FirstDifference, Verification
from attnscope.differ.shrinking.script import write_script
from attnscope.differ.shrinking.smaller_models import changes, rebuilt, sizes_of
from attnscope.differ.sides.subject import Inputs
from attnscope.errors import AttnscopeError, InputError

if TYPE_CHECKING:
    from attnscope.differ.comparison import Comparison, Options

__all__ = ["Shrunk", "shrink"]

_FEW = 3
"""Sizes up to this are tried one by one: a failure need not grow with the size."""


@dataclass(frozen=True, slots=True)
class Shrunk:
    """The smallest inputs that were found to fail.

    before, after: sizes by name. inputs: on which the sides still differ. difference: the first
    one, there. seeded: names or places of the inputs that are random numbers from seed 0, in this
    order. config: what to change in the configs of both sides before they are built again with
    parameters from seed 0; empty where they stay as they are. options: how they were compared.
    notes: what could not be made smaller, and why.
    """

    before: Mapping[str, int]
    after: Mapping[str, int]
    inputs: Inputs
    difference: FirstDifference
    options: Options
    seeded: tuple[str | int, ...] = ()
    config: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def script(self, candidate: str, reference: str, attention: str | None = None) -> str:
        """Return a program that compares both sides on these inputs: exit 1 while they differ.

        Args:
            candidate: words of the TARGET, as `attnscope verify` takes them.
            reference: the same.
            attention: kernel of Hugging Face models, where one was asked for.
        """
        return write_script(self, candidate, reference, attention)

    def to_json(self) -> dict[str, Any]:
        """Return the sizes, the difference and the notes."""
        return {
            "before": dict(self.before),
            "after": dict(self.after),
            "first_difference": self.difference.to_json(),
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        """Return what became of the sizes, in one line."""
        changed = [
            f"{name} {size} → {self.after[name]}" if self.after[name] != size else f"{name} {size}"
            for name, size in self.before.items()
        ]
        return ", ".join(changed)


def shrink(comparison: Comparison, found: Verification) -> Shrunk:
    """Return the smallest inputs on which a comparison still fails as it did.

    Args:
        comparison: whose inputs fail.
        found: what it returned there.

    Raises:
        InputError: nothing differs.

    Example:
        >>> import torch
        >>> from attnscope.differ.comparison import Comparison, Options
        >>> from attnscope.differ.cases.made import qkv
        >>> from attnscope.differ.sides.subject import Subject
        >>> def right(q, k, v):
        ...     return (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1) @ v
        >>> def mine(q, k, v):
        ...     return (q @ k.mT / q.shape[-1]).softmax(-1) @ v
        >>> sides = Subject("mine", mine), Subject("right", right)
        >>> comparison = Comparison(*sides, qkv(0), Options())
        >>> print(shrink(comparison, comparison.run()))
        batch 2 → 1, heads 3 → 1, queries 7 → 1, keys 7 → 2, head_dim 8 → 2, value_dim 8 → 1
    """
    first = found.first_difference
    if first is None:
        raise InputError(
            f"shrinking {found.candidate} against {found.reference}",
            "nothing differs on its inputs",
            "give the result of a comparison that fails",
        )
    plain = comparison.candidate.is_plain and comparison.reference.is_plain
    return (_PlainShrinking if plain else _Shrinking)(comparison, first).result()


class _Shrinking:
    """Makes the inputs of modules smaller: samples, then tokens."""

    def __init__(self, comparison: Comparison, first: FirstDifference) -> None:
        backward = first.stage.startswith("grad.")
        self.options = replace(comparison.options, gradients=backward)
        self.comparison = comparison.on(comparison.inputs)
        self.comparison.options = self.options
        self.inputs, self.first = comparison.inputs, first
        self.notes: list[str] = []
        self.config: dict[str, Any] = {}

    def result(self) -> Shrunk:
        """Make everything as small as it gets, then the numbers simple."""
        before = self.sizes()
        self.reduce()
        seeded = self._simplify()
        after = {**before, **self.sizes(), **self._smaller_models()}
        if self.config:
            before |= {name: size for name, size in self._model_sizes().items() if name in after}
        return Shrunk(
            before=before,
            after=after,
            inputs=self.inputs,
            difference=self.first,
            options=self.options,
            seeded=seeded,
            config=self.config,
            notes=tuple(self.notes),
        )

    def sizes(self) -> dict[str, int]:
        """Return the sizes of the inputs as they are now."""
        arranged = self._arranged()
        named = {"batch": arranged.batch} if arranged.batch_axes else {}
        for place, length in enumerate(arranged.lengths):
            named["length" if not place else f"length {place + 1}"] = length
        return named

    def reduce(self) -> None:
        """Reduce samples and tokens."""
        arranged = self._arranged()
        if arranged.refusal:
            self.notes.append(f"nothing could be made smaller: {arranged.refusal}")
            return
        if arranged.batch_axes:
            self._fewer_samples(arranged)
        for length in arranged.lengths:
            self._fewer_tokens(length)

    def accepts(self, inputs: Inputs) -> bool:
        """Take inputs if both sides differ on them as they did; say whether they do."""
        found = self._fails(inputs)
        if found is not None:
            self.inputs, self.first = inputs, found
        return found is not None

    def _fails(self, inputs: Inputs) -> FirstDifference | None:
        try:
            result = self.comparison.on(inputs).run()
        except (AttnscopeError, RuntimeError, IndexError):
            return None
        found = result.first_difference
        if found is None or _reason(found) != _reason(self.first):
            return None
        return found

    def _model_sizes(self) -> dict[str, int]:
        model = self.comparison.reference.model
        return sizes_of(model) if model is not None else {}

    def _smaller_models(self) -> dict[str, int]:
        """Build both again from smaller configs where they fail as before; return their sizes."""
        from attnscope.differ.comparison import Comparison as Same
        from attnscope.differ.entry import paired

        ours, theirs = self.comparison.candidate, self.comparison.reference
        after: dict[str, int] = {}
        if ours.model is None or theirs.model is None or not isinstance(self.options.weights, str):
            return after
        for change in changes(ours.model, theirs.model):
            wanted = {**self.config, **change}
            try:
                sides = rebuilt(ours, wanted), rebuilt(theirs, wanted)
                with paired(sides, self.options.weights, self.inputs) as pairs:
                    found = Same(*sides, self.inputs, self.options, pairs).run().first_difference
            except Exception as error:  # noqa: BLE001  a class of others may refuse such a config
                self.notes.append(f"no model with {change}: {type(error).__name__}: {error}")
                continue
            if found is not None and _reason(found) == _reason(self.first) and sides[1].model:
                self.config, self.first = wanted, found
                after = sizes_of(sides[1].model)
        return after

    def _arranged(self) -> Arrangement:
        return arrange(self.inputs, self.comparison.reference, self.options.expect)

    def _fewer_samples(self, arranged: Arrangement) -> None:
        """Try halves as long as one of them fails, then to leave out each sample."""
        chosen = list(range(arranged.batch))
        while len(chosen) > 1:
            middle = len(chosen) // 2
            parts = [chosen[:middle], chosen[middle:]]
            part = next((p for p in parts if self.accepts(arranged.samples(p))), None)
            if part is None:
                break
            chosen = part
        for sample in list(chosen):
            rest = [each for each in chosen if each != sample]
            if rest and self.accepts(arranged.samples(rest)):
                chosen = rest

    def _fewer_tokens(self, length: int) -> None:
        """Cut tokens off the end, then off the beginning."""
        arranged = self._arranged()
        if length not in arranged.lengths:  # it was cut together with another
            return
        stop = smallest(length, lambda n: self.accepts(arranged.window(0, n, length)))
        smallest(stop, lambda n: self.accepts(arranged.window(stop - n, stop, length)))

    def _simplify(self) -> tuple[str | int, ...]:
        """Put random numbers from seed 0 in the place of floats, if it fails with them as well."""
        named = _named(self.inputs)
        floats = [name for name, value in named.items() if _is_float(value)]
        if not floats:
            return ()
        changed = dict(named)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            for name in floats:
                value = named[name]
                changed[name] = torch.randn(value.shape, dtype=value.dtype).to(value.device)
        whole: Inputs = tuple(changed.values())
        if isinstance(self.inputs, Mapping):
            whole = {str(name): value for name, value in changed.items()}
        return tuple(floats) if self.accepts(whole) else ()


class _PlainShrinking(_Shrinking):
    """Makes the inputs of plain functions smaller, each size by its name."""

    def sizes(self) -> dict[str, int]:
        """Return the sizes of q, k and v."""
        return self._plain().sizes

    def reduce(self) -> None:
        """Reduce every size by itself, queries and keys first together."""
        for name, step in self._steps():
            plain = self._plain()
            sizes = plain.sizes
            count = sizes["queries" if name == "length" else name] // step
            for last in (False, True):
                count = smallest(count, self._cutter(plain, name, step, last=last))
                plain = self._plain()

    def _cutter(self, plain: Plain, name: str, step: int, *, last: bool) -> Callable[[int], bool]:
        return lambda count: self.accepts(plain.cut(name, count * step, last=last))

    def _steps(self) -> Iterator[tuple[str, int]]:
        """Iterate over the names of sizes, and of which number each has to stay a multiple."""
        plain = self._plain()
        yield "batch", 1
        yield "heads", plain.group
        if plain.sizes["queries"] == plain.sizes["keys"]:
            yield "length", 1
        for name in ("queries", "keys", "head_dim", "value_dim"):
            yield name, 1

    def _plain(self) -> Plain:
        return Plain(self.inputs, self.options.expect.get("sequence_axis", -2))


def smallest(count: int, fails: Callable[[int], bool]) -> int:
    """Return the smallest size up to `count` that fails, where `count` does.

    By halving, as if everything above a size that fails failed, too; few are tried one by one.
    """
    low, high = 0, count
    for few in range(1, min(_FEW, count - 1) + 1):
        if fails(few):
            return few
        low = few
    while high - low > 1:
        middle = (low + high) // 2
        if fails(middle):
            high = middle
        else:
            low = middle
    return high


def _reason(first: FirstDifference) -> tuple[str, str]:
    """Return what a smaller failure has to share: its explanation, else its stage and verdict."""
    if first.explanation is not None:
        return "because", first.explanation.key
    return first.stage, first.verdict


def _is_float(value: Any) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point() and bool(value.isfinite().all())


def _named(inputs: Inputs) -> dict[str | int, Any]:
    named = inputs.items() if isinstance(inputs, Mapping) else enumerate(inputs)
    return dict(named)
