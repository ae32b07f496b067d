"""Random chains of operations: layouts predict where every element came from."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.capture.layout_follower import FOREIGN, Follower, check, run

Step = tuple[str, tuple[Any, ...], dict[str, Any], int | None]


def divisors(n: int) -> list[int]:
    return [d for d in range(1, n + 1) if n % d == 0]


def random_shape(rng: Random, elements: int, ndim: int) -> tuple[int, ...]:
    shape = []
    for _ in range(ndim - 1):
        shape.append(rng.choice(divisors(elements)))
        elements //= shape[-1]
    return (*shape, elements)


def plain_step(rng: Random, follower: Follower, x: Tensor) -> Step:
    """An operation that keeps to the grain: what model code does to heads, tokens, features."""
    n = x.ndim
    at, other = rng.randrange(n), rng.randrange(n)
    length = x.shape[at]
    order = rng.sample(range(n), n)
    start = rng.randrange(length)
    stop = rng.randrange(start, length) + 1
    whole = (slice(None),) * at
    steps: list[Step] = [
        ("permute", (x, *order), {}, None),
        ("permute", (x, tuple(axis - n for axis in order)), {}, None),
        ("transpose", (x, at, other - n), {}, None),
        ("swapaxes", (x, at, other), {}, None),
        ("movedim", (x, at, other), {}, None),
        ("moveaxis", (x, tuple(order[:2]), tuple(sorted(order[:2]))), {}, None),
        ("unsqueeze", (x, at), {}, None),
        ("squeeze", (x,), {}, None),
        ("squeeze", (x, at), {}, None),
        ("flatten", (x, min(at, other), max(at, other)), {}, None),
        ("unflatten", (x, at, (-1, rng.choice(divisors(length)))), {}, None),
        ("narrow", (x, at, start, stop - start), {}, None),
        ("select", (x, at, start - length), {}, None),
        ("unbind", (x, at), {}, start),
        ("chunk", (x, 2, at), {}, 0),
        ("split", (x, rng.randint(1, length)), {"dim": at}, 0),
        ("split", (x, [start, length - start], at), {}, 1),
        ("tensor_split", (x, min(2, length), at), {}, min(2, length) - 1),
        ("repeat", (x, *(rng.randint(1, 2) for _ in range(n))), {}, None),
        ("tile", (x, (2,)), {}, None),
        ("repeat_interleave", (x, 2, at), {}, None),
        ("getitem", (x, (*whole, slice(start, stop))), {}, None),
        ("getitem", (x, (*whole, None, start)), {}, None),
        ("getitem", (x, (..., start % x.shape[-1], None)), {}, None),
        ("contiguous", (x,), {}, None),
        ("clone", (x,), {}, None),
        ("flip", (x, [at]), {}, None),
        ("expand", (follower.call("unsqueeze", x, 0), 3, *x.shape), {}, None),
        ("T", (x,), {}, None) if n == 2 else ("clone", (x,), {}, None),
        ("mT", (x,), {}, None) if n >= 2 else ("clone", (x,), {}, None),
    ]
    return rng.choice(steps)


def wild_step(rng: Random, follower: Follower, x: Tensor) -> Step:
    """An operation after which some axes may be opaque."""
    n = x.ndim
    at = rng.randrange(n)
    length = x.shape[at]
    whole = (slice(None),) * at
    index = torch.tensor([rng.randrange(length) for _ in range(rng.randint(1, 4))])
    grid = torch.tensor([[rng.randrange(length) for _ in range(2)] for _ in range(3)])
    mask = torch.tensor([True, *(rng.random() < 0.5 for _ in range(length - 1))])
    foreign = torch.full([2 if i == at else s for i, s in enumerate(x.shape)], FOREIGN)
    width = rng.randint(1, length)
    chunks = range(len(x.chunk(2, at)))
    pieces = [follower.call("chunk", x, 2, at, pick=i) for i in chunks]
    back = [0, 0] * (n - 1 - at)
    steps: list[Step] = [
        ("reshape", (x, random_shape(rng, x.numel(), rng.randint(1, 4))), {}, None),
        ("getitem", (x, (*whole, slice(0, None, rng.randint(1, 3)))), {}, None),
        ("getitem", (x, (*whole, index)), {}, None),
        ("getitem", (x, (*whole, index.tolist())), {}, None),
        ("getitem", (x, (*whole, grid)), {}, None),
        ("getitem", (x, (*whole, mask)), {}, None),
        ("getitem", (x, (None, 0, ..., index % x.shape[-1])), {}, None)
        if n > 1
        else ("clone", (x,), {}, None),
        ("getitem", (x, (index % x.shape[0], ..., index % x.shape[-1])), {}, None)
        if n > 1
        else ("clone", (x,), {}, None),
        ("index_select", (x, at, index), {}, None),
        ("gather", (x, at, torch.zeros_like(x)), {}, None),
        ("roll", (x, 1, at), {}, None),
        ("cat", ([foreign, x], at), {}, None),
        ("cat", ((x, foreign),), {"dim": at - n}, None),
        ("cat", (pieces, at), {}, None),
        ("cat", (pieces[::-1], at), {}, None),
        ("stack", ([x, follower.call("clone", x)], at), {}, None),
        ("pad", (x, [*back, 1, rng.randint(0, 2)]), {"value": FOREIGN}, None),
        ("unfold", (x, at, width, rng.randint(1, width)), {}, None),
        ("repeat_interleave", (x, 2), {}, None),
    ]
    return rng.choice(steps)


def walk(rng: Random, steps: int, *, wild: float) -> tuple[int, int, int]:
    """Run a random chain; return how many operations were met, followed, and followed exactly."""
    shape = tuple(rng.choice((1, 2, 3, 4, 6, 8)) for _ in range(rng.randint(1, 4)))
    follower = Follower()
    x = follower.origin(*shape)
    met = known = clear = 0
    exact = True
    for _ in range(steps):
        if not 0 < x.numel() < 4000 or not 0 < x.ndim < 7:
            break
        step = wild_step if rng.random() < wild else plain_step
        name, args, kwargs, pick = step(rng, follower, x)
        out = run(name, args, kwargs)
        out = out if pick is None else out[pick]
        if out.numel() == 0:
            break
        layout = follower.follow(name, args, kwargs, out, pick)
        met += 1
        if layout is None:
            break
        known += 1
        exact = exact and follower.drawn == 1
        clear += exact
        check(layout, out, shape, exact=exact)
        x = follower.know(out, layout)
    return met, known, clear


@settings(max_examples=300, deadline=None)
@given(st.randoms(use_true_random=False))
def test_chains_of_plain_operations_are_predicted(rng: Random) -> None:
    walk(rng, 8, wild=0)


@settings(max_examples=300, deadline=None)
@given(st.randoms(use_true_random=False))
def test_chains_of_any_operations_are_predicted(rng: Random) -> None:
    walk(rng, 8, wild=0.5)


def test_plain_operations_are_hardly_ever_lost() -> None:
    rng = Random(0)  # noqa: S311  picks operations, keeps no secrets
    totals = np.sum([walk(rng, 6, wild=0) for _ in range(400)], axis=0)
    met, known, clear = (int(total) for total in totals)
    assert met > 1000
    assert known / met >= 0.99
    assert clear / met >= 0.95
