"""Puts a model back after a run: modes, buffers, caches, gradients, random state.

A probe runs a model that is somebody's own, often many times. Whatever such a run leaves behind (a
cache that grew, running statistics, a counter, gradients) would change the next run, and the
author's model. So each run starts from what was there, and leaves it there.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attnscope.calls.held import version
from attnscope.checks.subject.keeping import kept

__all__ = ["random_state_kept", "restored", "seeded", "versions_kept"]


@contextlib.contextmanager
def restored(run: Callable[..., Any], inputs: object = None) -> Iterator[None]:
    """Put everything back that running a model may have changed; the random state too.

    run: a module, or a function or object that holds some. inputs: what it is called with, which
    it may write to.
    """
    undo = kept(run, inputs)
    graded, dtype = torch.is_grad_enabled(), torch.get_default_dtype()
    try:
        with random_state_kept():
            yield
    finally:
        torch.set_grad_enabled(graded)
        torch.set_default_dtype(dtype)
        for put_back in reversed(undo):
            put_back()


@contextlib.contextmanager
def versions_kept(tensors: Iterable[Tensor]) -> Iterator[None]:
    """Put the counts of changes in place back: the values are what they were, to the bit.

    A graph from before that holds these tensors would else refuse its backward.
    """
    counted = tuple(t for t in tensors if not t.is_inference())
    before = tuple(map(version, counted))
    try:
        yield
    finally:
        torch._C._autograd._unsafe_set_version_counter(counted, before)  # noqa: SLF001  no other way


@contextlib.contextmanager
def random_state_kept() -> Iterator[None]:
    """Put the state of the random generators of torch, Python and NumPy back."""
    plain, arrays = random.getstate(), np.random.get_state()  # noqa: NPY002  models draw from it
    devices = list(range(torch.cuda.device_count()))
    try:
        with torch.random.fork_rng(devices=devices):
            yield
    finally:
        random.setstate(plain)
        np.random.set_state(arrays)  # noqa: NPY002  see above


def seeded(seed: int) -> None:
    """Seed the generators that a model may draw from."""
    torch.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002  models draw from it
