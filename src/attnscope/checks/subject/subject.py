"""The subject of a check: a model, how to call it, what its inputs mean, and how it ran.

Everything that is asked of a subject is worked out once and kept. Whatever is run is put back.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from attnscope.calls.call import Call
from attnscope.calls.trace import Trace
from attnscope.checks.attributes import attribute
from attnscope.checks.rule import Skipped
from attnscope.checks.subject.checkpoints import opened_checkpoints
from attnscope.checks.subject.given import Given
from attnscope.checks.subject.intent import Intent, causal_intent, is_library_config
from attnscope.checks.subject.reading import read_roles
from attnscope.checks.subject.restoring import restored, seeded
from attnscope.checks.subject.roles import Padding, Roles
from attnscope.checks.subject.shown import shown_paddings, untold_masks
from attnscope.differ.sides.located import Located
from attnscope.differ.sides.outputs import outputs_of
from attnscope.differ.sides.side import Side, watch
from attnscope.differ.sides.subject import Subject as Watched

__all__ = ["Subject"]

T = TypeVar("T")

_TIMES = 16.0
"""Multiples of the measured rounding of a run that are still noise: orders of sums differ."""

_FLOOR = 64.0
"""Unit roundoffs of the largest output that are noise whatever was measured."""

_STAYS = frozenset({"run", "model", "expect", "name", "announce", "seed"})
"""What a subject is whatever its inputs are."""


class Subject:
    """A model or function, with inputs and what its author expects.

    run: called with the inputs; model: the same where it is a module. given: the inputs by name.
    expect: in the keys of contract `expect`. name: for messages. announce: told what takes long.
    """

    def __init__(
        self,
        run: Callable[..., Any],
        inputs: Any,
        expect: Mapping[str, Any] | None = None,
        *,
        name: str = "",
        announce: Callable[[str], None] = lambda _message: None,
        seed: int = 0,
    ) -> None:
        self.run = run
        self.model = run if isinstance(run, nn.Module) else None
        self.given = Given.of(run, inputs)
        self.expect: Mapping[str, Any] = dict(expect or {})
        self.name = name or attribute(run, "__name__") or type(run).__name__
        self.announce = announce
        self.seed = seed
        self._known: dict[Any, Any] = {}

    # -- what it is ----------------------------------------------------------------------------

    @cached_property
    def roles(self) -> Roles:
        """What each input is, by what is declared, by names and values, and by how it ran."""
        roles = read_roles(self.run, self.given, self.expect)
        told = tuple(each for each in roles.padding if not self._goes_to_another_table(each))
        roles = replace(roles, padding=told)
        if not untold_masks(self.given, roles):
            return roles
        shown = shown_paddings(self.given, roles, self.calls)
        return replace(roles, padding=(*roles.padding, *shown))

    def _goes_to_another_table(self, padding: Padding) -> bool:
        """Return whether ids taken for padding by an embedding's padding_idx go to others alone."""
        if padding.declared or padding.pad_id is None or self.model is None:
            return False
        tables = [each for each in self.model.modules() if isinstance(each, nn.Embedding)]
        if len({each.padding_idx for each in tables}) < 2:
            return False  # all of them have it, or none: the config says it
        value = self.input_value(padding.name)
        users = self.base.tape.users.get(value, []) if value is not None else []
        read = {v for each in users if each.name == "embedding" for v in each.values()}
        held = [each for each in tables if self.base.tape.value_of(each.weight) in read]
        return bool(held) and all(each.padding_idx is None for each in held)

    @cached_property
    def causal(self) -> Intent | None:
        """Whether positions are meant to see earlier ones only, and what says so."""
        return causal_intent(self.run, self.given, self.expect)

    @property
    def config(self) -> Any:
        """The model's configuration object, where it has one."""
        return attribute(self.model, "config", attribute(self.model, "cfg"))

    @property
    def has_library_config(self) -> bool:
        """Whether the configuration is one of Hugging Face, which all name their kind of model."""
        return is_library_config(self.config)

    # -- how it ran ----------------------------------------------------------------------------

    @cached_property
    def base(self) -> Side:
        """The run that everything starts from: eval mode, watched, every operation written down.

        `base.error` is what the forward raised, if it did; tape and trace go as far as it came.
        """
        return self.watched(self.given)

    @property
    def crash(self) -> Exception | None:
        """What the forward raises, if it does."""
        return self.base.error

    @property
    def trace(self) -> Trace:
        """The attention calls of the base run."""
        return self.base.trace

    @property
    def calls(self) -> list[Call]:
        """The attention calls of the base run, those that a backward makes again left out."""
        return [call for call in self.trace if not call.recomputed]

    def module(self, path: str) -> nn.Module | None:
        """Return the module of a path; None: there is none, or a function is checked."""
        try:
            return self.model.get_submodule(path) if self.model is not None else None
        except AttributeError:
            return None

    def located(self, call: Call) -> Located | None:
        """Return where the stages of a call lie on the tape of the base run."""
        return next((each for each in self.base.located if each.call is call), None)

    def watched(self, given: Given, *, train: bool = False) -> Side:
        """Run it under watch; never raises what the model raises (see `Side.error`).

        Where it only runs without gradients (kernels without a backward), it does so here.
        """
        side = self._watched(given, train=train, graded=True)
        if side.error is None or train:
            return side
        plain = self._watched(given, train=train, graded=False)
        return plain if plain.error is None else side

    def _watched(self, given: Given, *, train: bool, graded: bool) -> Side:
        args, kwargs = given.arguments()
        with restored(self.run, given.values), self._mode(train=train), opened_checkpoints():
            seeded(self.seed)
            return watch(Watched(self.name, self.run), args, kwargs, self.seed, graded=graded)

    def input_value(self, name: str) -> int | None:
        """Return the value on the tape of the base run that an input is; None: it was not read."""
        tensor = self.given.values[name]
        args, _ = self.given.arguments()
        at = next((str(n) for n, each in enumerate(args) if each is tensor), name)
        leaves = self.base.leaves
        same = next((leaves[n] for n in (at, *self.given.same_as(name)) if n in leaves), tensor)
        return self.base.tape.value_of(same)

    def outputs(
        self,
        given: Given | None = None,
        *,
        train: bool = False,
        graded: bool = False,
        seed: int | None = None,
    ) -> dict[str, Tensor]:
        """Run it as its user would, unwatched, and return its float outputs, the main one first.

        train: in train mode; graded: with gradients on (some kernels are chosen by that); seed: of
        the random state (that of the subject by default, so that dropout drops the same again).

        Raises:
            Skipped: the model raised.
        """
        return {
            k: v.detach()
            for k, v in outputs_of(self.raw(given, train=train, graded=graded, seed=seed)).items()
        }

    def raw(
        self,
        given: Given | None = None,
        *,
        train: bool = False,
        graded: bool = False,
        seed: int | None = None,
    ) -> Any:
        """Run it as its user would and return what it returns; errors as `outputs`."""
        called = Watched(self.name, self.run)
        inputs = given or self.given
        with (
            restored(self.run, inputs.values),
            self._mode(train=train),
            torch.set_grad_enabled(graded),
        ):
            seeded(self.seed if seed is None else seed)
            try:
                return inputs.call(lambda *args, **named: called.call(args, named))
            except (Exception, SystemExit) as error:
                text = " ".join(str(error).split())[:200]
                raise Skipped(f"the model raised {type(error).__name__}: {text}") from error

    def main_output(
        self,
        given: Given | None = None,
        *,
        train: bool = False,
        graded: bool = False,
        seed: int | None = None,
    ) -> Tensor:
        """Return the main one of `outputs`.

        Raises:
            Skipped: the model raised, or returns no float tensor.
        """
        found = self.outputs(given, train=train, graded=graded, seed=seed)
        if not found:
            raise Skipped("the model returns no float tensor: return what it computes")
        return next(iter(found.values()))

    @cached_property
    def output(self) -> Tensor:
        """The main output of a plain run in eval mode; errors as `main_output`."""
        return self.main_output()

    @cached_property
    def noise(self) -> float:
        """Largest difference of an output entry that is rounding: measured against float64.

        16 times how far the run is from the same operations in float64, and at least 64 unit
        roundoffs of its coarsest type times the largest entry.
        """
        largest = (
            float(self.output.abs().nan_to_num(0.0, 0.0, 0.0).max()) if self.output.numel() else 0.0
        )
        floor = (
            _FLOOR * max(self.base.roundoff, torch.finfo(torch.float32).eps) * max(largest, 1e-12)
        )
        main = next(iter(self.base.outputs.values()), None)
        if self.crash is not None or main is None or not self.base.is_faithful:
            return floor * 8
        exact = self.base.wide_output(main, self._drawn())
        gap = (main.detach().double() - exact).abs().nan_to_num(0.0, 0.0, 0.0)
        return max(_TIMES * float(gap.max()), floor) if gap.numel() else floor

    def with_inputs(self, given: Given) -> Subject:
        """Return the same subject with other inputs; nothing that was worked out is kept."""
        return self._anew(given=given)

    def of_model(self, model: nn.Module) -> Subject:
        """Return the same subject with another model, which takes the same inputs."""
        return self._anew(given=self.given, run=model, model=model)

    def _anew(self, **changed: Any) -> Subject:
        other = copy.copy(self)
        for name in [name for name in vars(other) if name not in _STAYS]:
            del vars(other)[name]
        vars(other).update(changed, _known={})
        return other

    def _drawn(self) -> dict[int, Tensor]:
        """Return the random numbers of the base run: in float64 others would be drawn."""
        tape = self.base.tape
        return {
            value: tape.tensors[value]
            for operation in tape.operations
            if operation.name == "bernoulli"
            for value in operation.defines
        }

    # -- keeping -------------------------------------------------------------------------------

    def once(self, key: Any, make: Callable[[], T]) -> T:
        """Return what `make` returned, or raise the `Skipped` that it raised, the first time."""
        if key not in self._known:
            try:
                self._known[key] = make()
            except Skipped as skipped:
                self._known[key] = skipped
        found = self._known[key]
        if isinstance(found, Skipped):
            raise Skipped(found.reason)
        return found  # type: ignore[no-any-return]

    @contextlib.contextmanager
    def _mode(self, *, train: bool) -> Iterator[None]:
        """Put the model into a mode; `restored` puts its own back."""
        if self.model is not None:
            try:
                self.model.train(train)
            except Exception:  # noqa: BLE001  some refuse to be switched: their parts don't
                for module in self.model.modules():
                    module.training = train
        yield
