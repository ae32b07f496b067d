"""Whether anything may drop in train mode: a look at the names of what runs, without a tape."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attnscope.capture.functions import Kind, operation_name
from attnscope.capture.interceptor import Interceptor
from attnscope.checks.dropouts import may_drop
from attnscope.checks.probe import probe
from attnscope.checks.rule import Skipped
from attnscope.checks.subject.subject import Subject

__all__ = ["train_drops"]


@probe
def train_drops(subject: Subject) -> bool:
    """Return whether an operation that may drop runs in train mode, or the run raises.

    A run that is written down costs many times what this one does.

    Raises:
        Skipped: it is no module.
    """
    if subject.model is None:
        raise Skipped("a function has no train mode: give a module")
    names: set[str] = set()

    def note(
        function: Callable[..., Any], _: Kind, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        names.add(operation_name(function))
        return function(*args, **kwargs)

    try:
        with Interceptor(note, {}):
            subject.raw(train=True, graded=True)
    except Skipped:
        return True
    return any(may_drop(name) for name in names)
