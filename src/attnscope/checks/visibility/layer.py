"""Which tokens reach which others through one attention, from its real weights.

An attention is run again in float64, from what its projections receive to what its output
projection returns, with some tokens changed and all queries held: the outputs that move see those
tokens. So neither a mask's convention matters, nor how heads, blocks and chunks are laid out, nor
whether there is a mask at all. Queries are held once as they are and once close to zero, so that a
saturated softmax hides nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from attnscope.calls.call import Call
from attnscope.checks.influence import differs
from attnscope.checks.visibility.tokens import Tokens
from attnscope.differ.sides.located import Located
from attnscope.differ.sides.side import Side

__all__ = ["Layer"]


_CLOSE_TO_ZERO = 1e-3


_LARGE = 3.0
"""Times the largest entry: what tokens are changed by."""


@dataclass(eq=False)
class Layer:
    """One attention: its calls, what they receive and return.

    given: values that hold the tokens of keys and values, each with where its tokens lie; returned:
    the value that holds the result. own: whether keys and queries are tokens of one sequence;
    reads: the sequences among the inputs that the keys are made of; carries: those whose tokens
    they are, what these have read by attention left out. beside: those of queries and keys, where
    all have one length and go side by side (questions and answers).
    """

    side: Side
    calls: tuple[Located, ...]
    given: Mapping[int, Tokens]
    returned: int
    rows: Tokens
    own: bool
    reads: frozenset[str]
    carries: frozenset[str]
    beside: frozenset[str]
    _seen: dict[bytes, Tensor] = field(default_factory=dict)

    @property
    def call(self) -> Call:
        """The first call."""
        return self.calls[0].call

    @property
    def module(self) -> str:
        """Dotted path of the module."""
        return self.call.module

    @property
    def keys(self) -> int:
        """Number of tokens that can be attended to."""
        return max(tokens.count for tokens in self.given.values())

    @property
    def queries(self) -> int:
        """Number of tokens that attend."""
        return self.rows.count

    @property
    def is_one_call(self) -> bool:
        """Whether it is one call whose queries and keys are the tokens, one for one."""
        return len(self.calls) == 1 and self.is_each_call

    @property
    def is_each_call(self) -> bool:
        """Whether the queries and keys of each call (of each head, say) are the tokens."""
        sizes = {(each.call.batch, each.call.queries, each.call.keys) for each in self.calls}
        return sizes == {(self.rows.batch, self.queries, self.keys)}

    @property
    def can_be_run(self) -> bool:
        """Whether it can be run again by itself; what keeps it from that is raised."""
        return len(self._results) == len(self._queries)

    def reached_by(self, where: Tensor) -> Tensor:
        """Return which results move, (batch, queries), when the tokens at `where` are changed.

        where: boolean, (batch, keys).
        """
        key = where.numpy(force=True).tobytes()
        if key not in self._seen:
            self._seen[key] = self._moved(where)
        return self._seen[key]

    def keys_moved_by(self, where: Tensor) -> bool:
        """Return whether any key is another one when the tokens at `where` are changed."""
        keys = [value for each in self.calls for value, _ in each.spots["k"]]
        changed = {value: self._changed(value, where) for value in self.given}
        before, after = (self.side.tape.run(keys, given, wide=True) for given in ({}, changed))
        return any(bool(differs(before[value], after[value]).any()) for value in keys)

    @cached_property
    def visible(self) -> Tensor:
        """Which keys each query sees, (batch, queries, keys); a run for each key."""
        columns = []
        for at in range(self.keys):
            where = torch.zeros(self.rows.batch, self.keys, dtype=torch.bool)
            where[:, at] = True
            columns.append(self.reached_by(where))
        return torch.stack(columns, -1)

    @cached_property
    def broken(self) -> Tensor:
        """Results that are no numbers, (batch, queries): nothing can be seen to move there."""
        return torch.stack([self.rows.by_token(each.isnan()) for each in self._results]).any(0)

    def _moved(self, where: Tensor) -> Tensor:
        tape = self.side.tape
        changed = {value: self._changed(value, where) for value in self.given}
        moved = torch.zeros(self.rows.batch, self.rows.count, dtype=torch.bool)
        for held, before in zip(self._queries, self._results, strict=True):
            after = tape.run([self.returned], {**held, **changed}, wide=True)[self.returned]
            moved |= self.rows.by_token(differs(before, after))
        return moved

    def _changed(self, value: int, where: Tensor) -> Tensor:
        tokens, tensor = self.given[value], self._plain[value]
        whole = tokens.read(tensor).clone()
        generator = torch.Generator().manual_seed(7)
        noise = torch.randn(whole.shape, generator=generator, dtype=torch.float64)
        whole += where[..., None].to(torch.float64) * noise * _LARGE * (1.0 + whole.abs().max())
        return tokens.write(whole, tensor)

    @cached_property
    def _plain(self) -> dict[int, Tensor]:
        return self.side.tape.run(list(self.given), wide=True)

    @cached_property
    def _queries(self) -> list[dict[int, Tensor]]:
        """The queries as they are, and close to zero."""
        values = [value for each in self.calls for value, _ in each.spots["q"]]
        as_they_are = self.side.tape.run(values, wide=True)
        close = {value: tensor * _CLOSE_TO_ZERO for value, tensor in as_they_are.items()}
        return [as_they_are, close]

    @cached_property
    def _results(self) -> list[Tensor]:
        return [
            self.side.tape.run([self.returned], held, wide=True)[self.returned]
            for held in self._queries
        ]
