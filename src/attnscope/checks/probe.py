"""A probe runs a subject under one change and says what moved."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from attnscope.checks.subject.subject import Subject

__all__ = ["probe"]

T = TypeVar("T")


def probe(make: Callable[[Subject], T]) -> Callable[[Subject], T]:
    """Run a probe once a subject, however many rules ask for it.

    What it raised as `Skipped` is raised to everyone who asks.
    """

    @functools.wraps(make)
    def once(subject: Subject) -> T:
        def announced() -> T:
            subject.announce(make.__name__.replace("_", " "))
            return make(subject)

        return subject.once((make.__module__, make.__name__), announced)

    return once
