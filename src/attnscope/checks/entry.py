"""`attnscope.check`."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from torch import nn
from torch.nn.parameter import is_lazy

from attnscope.calls.source import Source
from attnscope.checks.attributes import attribute
from attnscope.checks.engine import run_rules
from attnscope.checks.expect import read_expect
from attnscope.checks.lines import asking_line
from attnscope.checks.placing import at_maker
from attnscope.checks.report import Report
from attnscope.checks.rules import RULES
from attnscope.checks.selecting import selected
from attnscope.checks.subject.keeping import rewritable
from attnscope.checks.subject.libraries import is_of_library
from attnscope.checks.subject.restoring import versions_kept
from attnscope.checks.subject.subject import Subject
from attnscope.errors import InputError

__all__ = ["check"]


def check(  # noqa: PLR0913  options that are given by name
    model: Callable[..., Any],
    inputs: Any = None,
    *,
    expect: Mapping[str, Any] | None = None,
    select: Iterable[str] = (),
    ignore: Iterable[str] = (),
    name: str = "",
    announce: Callable[[str], None] = lambda _message: None,
    seed: int = 0,
    maker: Source | None = None,
) -> Report:
    """Run the rules on a model and return what is wrong with its attention.

    The model is run many times, in eval and in train mode, under changed inputs; its parameters,
    buffers, caches, gradients, modes and the random state are as before when this returns.

    Args:
        model: a module, or a function of (q, k, v, …).
        inputs: a dict of keyword arguments, a tuple of positional ones, or one tensor.
        expect: what the author intends, e.g. {"causal": True, "padding": "attention_mask keep"}.
        select: codes, beginnings of codes or names of the rules to run; none: all.
        ignore: the same for rules that are left out.
        name: what to call it in messages.
        announce: told, in words, what is being done.
        seed: of all random numbers.
        maker: the line that makes the model: where it is a library's own, findings are put there;
            None: at the line that asks for the check.

    Raises:
        InputError: the inputs, or `expect`, can't be used.
        TargetError: the forward raises, and no rule can say why.

    Example:
        >>> import torch, attnscope
        >>> layer = torch.nn.MultiheadAttention(32, 4, batch_first=True).eval()
        >>> x = torch.randn(2, 7, 32)
        >>> attnscope.check(layer, (x, x, x)).ok
        True
    """
    rules = selected(RULES, select, ignore)
    if not callable(model):
        raise InputError(
            "checking a model",
            f"an object of type {type(model).__name__}",
            "give a module, or a function of (q, k, v, …)",
        )
    _refuse_without_values(model)
    declared = read_expect(expect or {}, "reading expect")
    subject = Subject(
        model,
        inputs,
        declared,
        name=name or attribute(model, "__name__") or type(model).__name__,
        announce=announce,
        seed=seed,
    )
    _refuse_unknown_names(subject)
    _refuse_nested(subject)
    with versions_kept(rewritable(model, subject.given.values)):
        report = run_rules(subject, rules)
    asker = asking_line() if is_of_library(model) else None
    return at_maker(report, maker or asker)


def _refuse_unknown_names(subject: Subject) -> None:
    """Refuse an `expect` that names an input or an axis that isn't there: nothing would be read.

    Where the forward takes any names at all (`**kwargs`), those that it was given count.
    """
    given = subject.given
    taken = dict.fromkeys([*given.values, *(p.name for p in given.parameters)])
    loose = any(p.kind is p.VAR_KEYWORD for p in given.parameters) or not given.parameters
    for key in ("padding", "prefix", "documents", "positions", "cache"):
        said = subject.expect.get(key)
        name = said.partition(" ")[0] if isinstance(said, str) else None
        if name is None or name in taken or (key == "cache" and (name == "self" or loose)):
            continue
        if loose and key == "positions":
            continue
        raise InputError(
            f"reading expect {key}",
            f"{subject.name} has no input {name!r}; it takes {', '.join(taken)}",
            _hint(name, taken),
        )
    axes = max((tensor.dim() for _, tensor in given.tensors()), default=0)
    for key in ("batch_axis", "sequence_axis"):
        if subject.expect.get(key, 0) >= max(axes, 1):
            raise InputError(
                f"reading expect {key}",
                f"it is {subject.expect[key]}, and the inputs have at most {axes} axes",
                "count the axes from 0",
            )


def _refuse_nested(subject: Subject) -> None:
    """Refuse inputs whose samples have lengths of their own: probes change tokens by position."""
    for name, tensor in subject.given.tensors():
        if tensor.is_nested:
            raise InputError(
                f"checking {subject.name}",
                f"{name} is a nested tensor, in which no token has the same place in all samples",
                "give it padded, with lengths or a mask, to a wrapper that nests it in its forward",
            )


def _hint(name: str, taken: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(taken), n=1)
    return f"did you mean {close[0]}?" if close else "name one of these"


def _refuse_without_values(model: object) -> None:
    """Refuse a model whose parameters are not there yet: nothing that it computes can be judged."""
    for name, tensor in model.named_parameters() if isinstance(model, nn.Module) else ():
        if is_lazy(tensor):
            raise InputError(
                "checking a model",
                f"its {name} has no shape yet (a lazy module)",
                "run the model once on its inputs before it is checked",
            )
        if tensor.is_meta:
            raise InputError(
                "checking a model",
                f"its {name} has no values (device meta)",
                "load its weights, or call to_empty(device='cpu') and initialise it",
            )
