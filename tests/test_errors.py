"""The exception tree: three parts in one line, one root, safe to copy and to pickle."""

from __future__ import annotations

import copy
import pickle
import re

import pytest

from attnscope import errors
from attnscope.errors import AttnscopeError, MissingExtraError

TREE = [getattr(errors, name) for name in errors.__all__]
THREE_PARTS = [cls for cls in TREE if cls is not MissingExtraError]


@pytest.mark.parametrize("cls", THREE_PARTS)
def test_str_joins_the_three_parts_to_one_line(cls: type[AttnscopeError]) -> None:
    error = cls("loading the trace runs/a", "its manifest ends early", "record the run again")
    assert str(error) == "loading the trace runs/a: its manifest ends early; record the run again"
    assert (error.doing, error.found, error.todo) == (
        "loading the trace runs/a",
        "its manifest ends early",
        "record the run again",
    )


def test_line_breaks_inside_a_part_become_blanks() -> None:
    error = AttnscopeError("importing\nmodel.py", "SyntaxError:\n    x = (\n\t^", " mend it ")
    assert str(error) == "importing model.py: SyntaxError: x = ( ^; mend it"


def test_a_missing_extra_says_what_to_install() -> None:
    error = MissingExtraError("drawing the weights", "matplotlib", "plots")
    assert str(error) == (
        "drawing the weights: the package matplotlib is not installed; "
        "install it with: pip install 'attnscope[plots]'"
    )
    assert (error.package, error.extra) == ("matplotlib", "plots")


@pytest.mark.parametrize("cls", TREE)
def test_every_error_descends_from_the_root(cls: type[AttnscopeError]) -> None:
    assert issubclass(cls, AttnscopeError)
    assert issubclass(cls, Exception)


@pytest.mark.parametrize("cls", TREE)
@pytest.mark.parametrize("again", [copy.copy, lambda error: pickle.loads(pickle.dumps(error))])
def test_an_error_survives_copy_and_pickle(cls: type[AttnscopeError], again: object) -> None:
    error = cls("doing", "found", "todo")
    assert callable(again)
    twin = again(error)
    assert type(twin) is cls
    assert str(twin) == str(error)
    assert vars(twin) == vars(error)


def test_the_drawn_tree_names_every_error_and_no_other() -> None:
    drawn = re.findall(r"^(?:├── |└── )?``(\w+)``", errors.__doc__ or "", flags=re.MULTILINE)
    defined = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, AttnscopeError)
    }
    assert set(drawn) == set(errors.__all__) == defined
