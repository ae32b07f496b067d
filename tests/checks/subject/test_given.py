"""Inputs by the names of a forward's arguments: in whatever form they are given, called as such."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from attnscope.checks.subject.given import Given
from attnscope.errors import InputError


def plain(x: Tensor, mask: Tensor | None = None, *, scale: float = 1.0) -> Any:
    return x, mask, scale


def loose(first: Tensor, *rest: Tensor, **named: Tensor) -> Any:
    return first, rest, named


def only_named(**named: Any) -> Any:
    return named


def attends(query: Tensor, key: Tensor, value: Tensor) -> Any:
    return query, key, value


X, Y, Z = torch.zeros(2), torch.ones(2), torch.full((2,), 2.0)


@pytest.mark.parametrize(
    ("run", "inputs", "names", "positional"),
    [
        (plain, X, ["x"], ("x",)),
        (plain, (X, Y), ["x", "mask"], ("x", "mask")),
        (plain, [X, Y], ["x", "mask"], ("x", "mask")),
        (plain, {"mask": Y, "x": X}, ["x", "mask"], ()),
        (plain, {"x": X, "scale": 2.0}, ["x", "scale"], ()),
        (loose, (X, Y, Z), ["first", "rest[0]", "rest[1]"], ("first", "rest[0]", "rest[1]")),
        (loose, {"first": X, "more": Y}, ["first", "more"], ()),
        (only_named, {"a": X, "b": Y}, ["a", "b"], ()),
        (only_named, None, [], ()),
    ],
)
def test_names(run: Any, inputs: Any, names: list[str], positional: tuple[str, ...]) -> None:
    given = Given.of(run, inputs)
    assert list(given.values) == names
    assert given.positional == positional


@pytest.mark.parametrize(
    ("run", "inputs"),
    [
        (plain, X),
        (plain, (X, Y)),
        (plain, {"x": X, "scale": 2.0}),
        (loose, (X, Y, Z)),
        (loose, {"first": X, "more": Y}),
        (only_named, {"a": X}),
    ],
)
def test_it_is_called_with_what_was_given(run: Any, inputs: Any) -> None:
    args = (inputs,) if isinstance(inputs, Tensor) else inputs if isinstance(inputs, tuple) else ()
    named = inputs if isinstance(inputs, dict) else {}
    torch.testing.assert_close(Given.of(run, inputs).call(run), run(*args, **named))


def test_what_is_given_by_position_is_handed_on_by_position() -> None:
    seen = []
    model = nn.Linear(2, 2)
    model.register_forward_pre_hook(lambda _module, args: seen.append(len(args)))
    Given.of(model, X).call(model)
    assert seen == [1]


def test_a_position_that_was_taken_out_leaves_the_others_at_theirs() -> None:
    given = Given.of(attends, (X, Y, Z))
    left = Given({n: v for n, v in given.values.items() if n != "key"}, given.parameters,
                 given.positional)  # fmt: skip
    assert left.arguments() == ((X,), {"value": Z})


def test_tensors_are_copied_and_one_tensor_stays_one() -> None:
    query, key, value = Given.of(attends, (X, X, Y)).call(attends)
    assert query is key
    assert query is not X
    assert value is not query


def test_a_forward_can_write_to_nothing_that_was_given() -> None:
    def writes(x: Tensor, parts: list[Any], batch: dict[str, Any]) -> None:
        x.add_(1)
        parts[0][0].add_(1)
        parts.append(1)
        batch["deep"]["y"].add_(1)
        batch["new"] = 1

    x, y, z = torch.zeros(2), torch.zeros(2), torch.zeros(2)
    inputs = (x, [(y,)], {"deep": {"y": z}})
    Given.of(writes, inputs).call(writes)
    assert not any(bool(each.any()) for each in (x, y, z))
    assert len(inputs[1]) == 1
    assert list(inputs[2]) == ["deep"]


def takes_batch(batch: dict[str, Any], scale: float = 1.0) -> Any:
    return batch, scale


def test_a_dict_of_tensors_is_taken_apart_and_put_together_again() -> None:
    given = Given.of(takes_batch, ({"x": X, "mask": Y, "name": "n"}, 2.0))
    assert list(given.values) == ["scale", "x", "mask", "name"]
    batch, scale = given.replaced("x", Z).call(takes_batch)
    assert (list(batch), scale) == (["x", "mask", "name"], 2.0)
    assert torch.equal(batch["x"], Z)


@pytest.mark.parametrize("batch", [{"scale": X}, {1: X}, {"text": "no tensor"}])
def test_a_dict_stays_whole_where_its_keys_can_be_no_names(batch: Any) -> None:
    assert list(Given.of(takes_batch, (batch,)).values) == ["batch"]


def test_a_change_reaches_every_argument_that_is_the_same_tensor_once() -> None:
    calls = []

    def change(name: str, tensor: Tensor) -> Tensor:
        calls.append(name)
        return tensor + 1

    changed = Given.of(attends, (X, X, Y)).mapped(change)
    assert calls == ["query", "value"]
    assert changed.values["query"] is changed.values["key"]
    replaced = Given.of(attends, (X, X, Y)).replaced("query", Z)
    assert replaced.values["key"] is Z
    assert replaced.values["value"] is Y


def test_gradients_are_asked_of_the_copies_as_of_what_was_given() -> None:
    wanted = torch.zeros(2, requires_grad=True)
    x, _, _ = Given.of(plain, wanted).call(plain)
    assert x.requires_grad
    assert x.is_leaf


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        (None, "missing a required argument: 'x'"),
        ({"y": X}, "it takes (x, mask, scale)"),
        ((X, Y, Z), "too many positional arguments"),
        ("text", "they are of type str"),
        (3, "they are of type int"),
    ],
)
def test_inputs_that_do_not_fit_are_refused(inputs: Any, said: str) -> None:
    with pytest.raises(InputError, match=said.replace("(", r"\(").replace(")", r"\)")):
        Given.of(plain, inputs)


def test_arguments_that_are_taken_are_known_given_or_not() -> None:
    assert Given.of(plain, X).accepts("mask")
    assert not Given.of(plain, X).accepts("bias")
    assert not Given.of(only_named, {"a": X}).accepts("named")
