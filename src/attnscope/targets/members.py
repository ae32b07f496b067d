"""Making a model, or inputs, of what a name in a user's file stands for."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from torch import Tensor, nn

from attnscope.errors import TargetError
from attnscope.targets.blame import describe, place
from attnscope.targets.target import Inputs


def member(module: ModuleType, name: str, where: str) -> Any:
    """Return the value called `name` in a module; dots reach into classes and objects.

    Raises:
        TargetError: there is none; similar names are suggested.
    """
    value: Any = module
    for part in name.split("."):
        if not hasattr(value, part):
            known = [other for other in vars(value) if not other.startswith("_")]
            close = difflib.get_close_matches(part, known, n=3)
            own = candidates(module)
            todo = "check the name"
            if close:
                todo = f"did you mean {' or '.join(close)}?"
            elif own:
                todo = f"it defines: {', '.join(own)}"
            raise TargetError(f"looking for {name} in {where}", f"there is no {part!r}", todo)
        value = getattr(value, part)
    return value


def candidates(module: ModuleType) -> list[str]:
    """Return the names of the models and model classes that a module defines itself."""
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and (
            isinstance(value, nn.Module)
            or (
                isinstance(value, type)
                and issubclass(value, nn.Module)
                and value.__module__ == module.__name__
            )
        )
    ]


_WRAP = "name a function without required arguments that calls it with yours"


def built_model(value: Any, doing: str, folder: Path) -> nn.Module:
    """Return the module that an instance, a class or a function without arguments stands for.

    Args:
        value: what the user named.
        doing: the first part of an error, e.g. "building Net of model.py".
        folder: the folder of the user's own code, to name the line of a failure.

    Raises:
        TargetError: it is something else, needs arguments, raises, or returns no module.
    """
    if isinstance(value, nn.Module):
        return value
    if not callable(value):
        raise TargetError(
            doing,
            f"it is of type {type(value).__name__}",
            "name a module, a module class, or a function that returns a module",
        )
    is_class = isinstance(value, type)
    if is_class and not issubclass(value, nn.Module):
        raise TargetError(
            doing, f"the class {value.__name__} is no torch.nn.Module", "name a module class"
        )
    if inspect.isfunction(value) and (needed := _required(value)):
        raise TargetError(
            doing,
            f"it needs the arguments {', '.join(needed)}",
            f"{_WRAP}; a function of tensors itself is checked from Python: "
            f"attnscope.check({value.__name__}, inputs)",
        )
    model = called(value, doing, folder)
    if not isinstance(model, nn.Module):
        raise TargetError(
            doing, f"it returned {type(model).__name__}", "return a torch.nn.Module from it"
        )
    return model


def read_inputs(value: Any, doing: str, folder: Path) -> Inputs:
    """Return inputs as keyword arguments (a dict) or positional ones (a tuple).

    Args:
        value: a mapping, a tuple or a tensor, or a function without arguments that returns one.
        doing: the first part of an error, e.g. "reading inputs of model.py".
        folder: the folder of the user's own code, to name the line of a failure.

    Raises:
        TargetError: it is of another type, or the function needs arguments or raises.
    """
    if callable(value) and not isinstance(value, Mapping | Tensor):
        value = called(value, doing, folder)
    if isinstance(value, Tensor):
        return (value,)
    if isinstance(value, Mapping):
        return _keywords(value, doing)
    if isinstance(value, tuple) and not hasattr(value, "_fields") and value:
        return value
    if isinstance(value, tuple | list):
        found = "an empty tuple" if value == () else f"of type {type(value).__name__}"
        raise TargetError(
            doing, f"they are {found}", "use a tuple for positional arguments, or a dict"
        )
    raise TargetError(
        doing,
        f"they are of type {type(value).__name__}",
        "give a dict (keyword arguments), a tuple (positional) or a tensor",
    )


def _keywords(value: Mapping[Any, Any], doing: str) -> dict[str, Any]:
    odd = [key for key in value if not isinstance(key, str)]
    if odd or not value:
        found = f"the dict has the key {odd[0]!r}" if odd else "the dict is empty"
        raise TargetError(doing, found, "use the names of the forward's arguments as keys")
    return dict(value)


def called(function: Callable[..., Any], doing: str, folder: Path) -> Any:
    """Call a class or function of the user's without arguments.

    Raises:
        TargetError: it needs arguments, or raises; the user's own line is named.
    """
    needed = _required(function)
    if needed:
        raise TargetError(
            doing,
            f"it needs the arguments {', '.join(needed)}",
            _WRAP,
        )
    try:
        return function()
    except TargetError:
        raise
    except (Exception, SystemExit) as error:
        where = place(error, folder)
        found = f"{describe(error)} at {where}" if where else describe(error)
        raise TargetError(doing, found, "mend that line") from error


def _required(function: Callable[..., Any]) -> list[str]:
    """Return the names of the arguments without which `function` can't be called."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    open_ended = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [
        item.name
        for item in parameters
        if item.default is inspect.Parameter.empty and item.kind not in open_ended
    ]
