"""An einsum of three operands and more, as products of two after one another.

Weights, values and the output projection may be one call, or q, k and a scale for each head. What
lies between has to be there to be read, so the call is followed as if it had been written in steps:
its operands in an order in which every step sums what nobody needs any longer, and factors that
sum nothing (a scale, a mask) last, as multiplications.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from attnscope.capture.functions import Kind
from attnscope.capture.operands import equation_of_two
from attnscope.capture.step import Step

__all__ = ["parts_of"]


@dataclass(frozen=True, slots=True, eq=False)
class _Term:
    """An operand with the letters of its axes."""

    letters: str
    tensor: Tensor


def parts_of(
    step: Step, is_weights: Callable[[Tensor], bool], is_parameter: Callable[[Tensor], bool]
) -> list[Step]:
    """Return the products of two that an einsum of more amounts to; [] where it is none to split.

    The last part has the real output. The others have outputs of the right shape and type without
    values: they stand for tensors that the model never made. An einsum is split where values are
    weighed in it, or where at least two of its operands are activations.
    """
    equation, operands = equation_of_two(step.args)
    terms = _terms(equation, operands) if len(operands) > 2 else None
    if terms is None or not isinstance(step.output, Tensor):
        return []
    inputs, output = terms
    weights = [term for term in inputs if is_weights(term.tensor)]
    free = [term for term in inputs if not is_parameter(term.tensor)]
    if len(weights) > 1 or len(free) < 2:
        return []
    ordered = _ordered(inputs, output, weights[0] if weights else None)
    numbers = [_Term("", t) for t in step.tensors if all(t is not each for each in operands)]
    activations = {id(term): 1 + (term in weights) for term in free}  # weights come from q and k
    return list(_steps(step, [*ordered, *numbers], output, activations))


def _terms(equation: str, operands: Sequence[Any]) -> tuple[list[_Term], str] | None:
    """Return the operands with their letters, and those of the output; None: not followed."""
    if not all(isinstance(each, Tensor) for each in operands):
        return None
    inputs, arrow, output = equation.replace(" ", "").partition("->")
    texts = inputs.split(",")
    unused = [letter for letter in string.ascii_letters if letter not in equation]
    ranks = [
        each.dim() - len(text.replace("...", "")) if "..." in text else 0
        for text, each in zip(texts, operands, strict=True)
    ]
    rest = "".join(unused[: max(ranks, default=0)])
    texts = [
        text.replace("...", rest[len(rest) - rank :])
        for text, rank in zip(texts, ranks, strict=True)
    ]
    if not arrow:
        met = "".join(texts)
        output = rest + "".join(sorted(c for c in set(met) - set(rest) if met.count(c) == 1))
    output = output.replace("...", rest)
    if any(len(set(text)) < len(text) for text in texts):  # a diagonal
        return None
    return [_Term(*pair) for pair in zip(texts, operands, strict=True)], output


def _ordered(terms: list[_Term], output: str, weights: _Term | None) -> list[_Term]:
    """Return the operands in the order in which they are multiplied."""
    kept = set(output)
    factors = [t for t in terms if t is not weights and set(t.letters) <= kept]
    waiting = [t for t in terms if all(t is not factor for factor in factors)]
    if len(waiting) < 2:  # nothing is summed: as they stand
        return terms
    first = weights or waiting[0]
    ordered, met = [first], set(first.letters)
    waiting = [t for t in waiting if t is not first]
    while waiting:
        summed = [t for t in waiting if not met.isdisjoint(set(t.letters) - kept)]
        inside = [t for t in summed if set(t.letters) <= met]  # a mask on weights, before values
        ending = [t for t in summed if _ends(t, met, kept, waiting)]
        chosen = (inside or ending or summed or waiting)[0]
        waiting = [t for t in waiting if t is not chosen]
        ordered.append(chosen)
        met |= set(chosen.letters)
    return [*ordered, *factors]


def _ends(term: _Term, met: set[str], kept: set[str], waiting: list[_Term]) -> bool:
    """Return whether an axis that was met is summed with `term`, because nobody else has it."""
    later = kept.union(*(other.letters for other in waiting if other is not term))
    return not (met & set(term.letters)) <= later


def _steps(
    step: Step, terms: list[_Term], output: str, activations: Mapping[int, int]
) -> Iterator[Step]:
    """Yield the products; activations: how many of them each operand (by identity) is made of."""
    sizes: dict[str, int] = {}
    for term in terms:
        for letter, size in zip(term.letters, term.tensor.shape, strict=True):
            sizes[letter] = max(sizes.get(letter, 0), size)
    left, met = terms[0], activations.get(id(terms[0]), 0)
    for index, right in enumerate(terms[1:], start=1):
        later = terms[index + 1 :]
        letters = _left_over(left.letters, right.letters, output, [t.letters for t in later])
        part = _part(step, left, right, letters)
        met += activations.get(id(right), 0)
        if not later:
            part.output = step.output
        elif met > 1:
            part.output = _without_values(step.output, [sizes[letter] for letter in letters])
            part.stands_in = True
        else:  # a projection, such as q times the matrix of a bilinear form
            part.output = part.function(*part.args)
        yield part
        left = _Term(letters, part.output)


def _without_values(like: Tensor, shape: list[int]) -> Tensor:
    """Return a tensor of a shape that takes no memory and means nothing."""
    like = like.detach()
    return like.new_empty(shape) if 0 in shape else like.new_empty(1).expand(shape)


def _left_over(left: str, right: str, output: str, later: Iterable[str]) -> str:
    """Return the axes of a product of two, those left out that nobody needs any longer."""
    needed = set(output).union(*later)
    both = [letter for letter in dict.fromkeys(left + right) if letter in needed]
    return output if set(both) == set(output) else "".join(both)


def _part(step: Step, left: _Term, right: _Term, letters: str) -> Step:
    """Return one product; one that sums nothing and spreads one side alone is a multiplication."""
    function: Callable[..., Any] = torch.functional.einsum
    name, kind = "einsum", Kind.CONTRACTION
    args: tuple[Any, ...]
    if letters == left.letters and set(right.letters) <= set(letters):
        name, function, kind = "mul", torch.mul, Kind.PRODUCT
        args = left.tensor, _aligned(right, letters)
    else:
        args = f"{left.letters},{right.letters}->{letters}", left.tensor, right.tensor
    part = Step(name, function, kind, args, {}, [arg for arg in args if isinstance(arg, Tensor)])
    part.plain, part.graded = True, step.graded
    return part


def _aligned(term: _Term, letters: str) -> Tensor:
    """Return a view of an operand whose axes stand where those of `letters` do."""
    order = [term.letters.index(letter) for letter in letters if letter in term.letters]
    if not order:
        return term.tensor
    view = term.tensor.detach().permute(order)
    for axis, letter in enumerate(letters):
        if letter not in term.letters:
            view = view.unsqueeze(axis)
    return view
