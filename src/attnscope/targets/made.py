"""Inputs for a model whose author gave none: which arguments, of which shape.

Sizes are all different (batch, length, length of the memory, width, heads), so that no axis can
pass for another. Nothing here runs the model or draws from the global random state.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from attnscope.errors import TargetError
from attnscope.targets.blame import describe
from attnscope.targets.target import Inputs
from attnscope.targets.widths import first_width, ids_below, most_positions, width_for

HOW = (
    "give inputs: define `inputs` in the file (a dict, a tuple or a tensor), "
    "or say --inputs file.py:name"
)

_SIZES = (7, 5, 3, 2, 11, 13)  # length, memory length, batch, and what replaces one that is taken
_IDS = frozenset({"input_ids", "ids", "idx", "token_ids", "tokens", "src_ids", "tgt_ids"})
_MEMORY = frozenset(
    {
        "memory",
        "context",
        "encoder_hidden_states",
        "encoder_output",
        "encoder_outputs",
        "enc_out",
        "enc_output",
        "cross",
    }
)
_VALUES = frozenset({"key", "keys", "k", "value", "values", "v", "kv", "key_value_states"})
_STREAM = frozenset(
    {
        "x",
        "input",
        "inputs",
        "hidden_states",
        "hidden",
        "src",
        "tgt",
        "target",
        "query",
        "queries",
        "q",
        "embeddings",
        "embeds",
        "inp",
        "seq",
        "sequence",
        "y",
    }
)


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes of made inputs; `batch_first` says how their first two axes are ordered."""

    batch: int
    length: int
    memory: int
    batch_first: bool = True

    def shape(self, length: int, *width: int) -> tuple[int, ...]:
        """Return the shape of one input."""
        lead = (self.batch, length) if self.batch_first else (length, self.batch)
        return (*lead, *width)


def make_inputs(model: nn.Module, expect: Mapping[str, Any] | None = None) -> Inputs:
    """Return inputs that `model` should accept, the same every time.

    Token ids for Hugging Face models and for modules that begin with an embedding; else random
    `(batch, length, width)`, or `(length, batch, width)` for modules that declare it
    (`batch_first = False`, or `batch_axis` in `expect`).

    Raises:
        TargetError: the width, or what an argument means, can't be told.
    """
    expect = expect or {}
    if any(base.__name__ == "PreTrainedModel" for base in type(model).__mro__):
        return _of_architecture(model)
    generator = torch.Generator().manual_seed(0)
    maker = _Maker(model, _sizes(model, expect), generator)
    return maker.of_torch_layer() or maker.of_signature()


class _Maker:
    """Makes the inputs of one module."""

    def __init__(self, model: nn.Module, sizes: Sizes, generator: torch.Generator) -> None:
        self.model = model
        self.sizes = sizes
        self.generator = generator
        self.doing = f"making inputs for {type(model).__name__}"
        floats = [item for item in model.parameters() if item.is_floating_point()]
        self.dtype = floats[0].dtype if floats else torch.float32
        self.device = floats[0].device if floats else torch.device("cpu")

    def of_torch_layer(self) -> dict[str, Any] | None:
        """Return the inputs of a layer of torch.nn that is used as it is, or None for others."""
        model, size = self.model, self.sizes
        if isinstance(model, nn.MultiheadAttention) and _is(model, nn.MultiheadAttention):
            return {
                "query": self.floats(size.length, model.embed_dim),
                "key": self.floats(size.memory, model.kdim),
                "value": self.floats(size.memory, model.vdim),
            }
        width = first_width(model)
        if width is None:
            return None
        if _is(model, nn.TransformerEncoderLayer, nn.TransformerEncoder):
            return {"src": self.floats(size.length, width)}
        if _is(model, nn.TransformerDecoderLayer, nn.TransformerDecoder):
            tgt = self.floats(size.length, width)
            return {"tgt": tgt, "memory": self.floats(size.memory, width)}
        if _is(model, nn.Transformer):
            src = self.floats(size.memory, width)
            return {"src": src, "tgt": self.floats(size.length, width)}
        return None

    def of_signature(self) -> dict[str, Any] | tuple[Any, ...]:
        """Return one input for each argument that the module's forward requires."""
        required = self._required()
        unknown = [name for name in required[1:] if name not in _STREAM | _MEMORY | _VALUES | _IDS]
        if unknown:
            found = f"what its forward's argument {unknown[0]!r} stands for can't be told"
            raise TargetError(self.doing, found, HOW)
        return {name: self._one(name, first=name == required[0]) for name in required}

    def floats(self, length: int, width: int) -> Tensor:
        """Return random numbers of the usual normal distribution."""
        made = torch.randn(self.sizes.shape(length, width), generator=self.generator)
        return made.to(self.device, self.dtype)

    def _required(self) -> list[str]:
        parameters = inspect.signature(self.model.forward).parameters.values()
        positional = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
        named = [item for item in parameters if item.kind in positional]
        names = [item.name for item in named if item.default is inspect.Parameter.empty]
        names = names or [item.name for item in named if item.name in _IDS | _STREAM][:1]
        if not names:
            raise TargetError(self.doing, "its forward names no argument to make an input for", HOW)
        return names

    def _one(self, name: str, *, first: bool) -> Tensor:
        length = self.sizes.memory if name in _MEMORY else self.sizes.length
        vocabulary = ids_below(self.model)
        named_ids = name in _IDS
        if vocabulary is not None and (named_ids or first or name in {"src", "tgt", "target"}):
            shape = self.sizes.shape(length)
            ids = torch.randint(vocabulary, shape, generator=self.generator)
            return ids.to(self.device)
        if named_ids:
            found = f"the vocabulary for its forward's argument {name!r} can't be told"
            raise TargetError(self.doing, found, HOW)
        width = width_for(self.model, name, keys=name in _MEMORY | _VALUES)
        if width is None:
            found = f"the width of its forward's argument {name!r} can't be told"
            raise TargetError(self.doing, found, HOW)
        return self.floats(length, width)


def _sizes(model: nn.Module, expect: Mapping[str, Any]) -> Sizes:
    """Return sizes that differ from each other and from the module's width and heads."""
    heads = [
        getattr(model, name, None) for name in ("num_heads", "n_heads", "n_head", "heads", "nhead")
    ]
    taken = {first_width(model), *(count for count in heads if isinstance(count, int))}
    limit = most_positions(model)
    free = [size for size in _SIZES if size not in taken]
    fitting = [size for size in free if limit is None or size <= limit]
    length, memory = [*fitting, *(limit or size for size in free)][:2]
    batch = next(size for size in (2, 3, 4, 6) if size not in {length, memory} | taken)
    return Sizes(batch, length, memory, _batch_first(model, expect))


def _batch_first(model: nn.Module, expect: Mapping[str, Any]) -> bool:
    """Return whether the batch is the first axis, as `expect` or the module itself declares."""
    if "batch_axis" in expect or "sequence_axis" in expect:
        return bool(expect.get("batch_axis", 1 - expect.get("sequence_axis", 1)) == 0)
    declaring: list[Any] = [model]
    if isinstance(model, nn.TransformerEncoder | nn.TransformerDecoder):
        declaring = [model.layers[0].self_attn]
    elif isinstance(model, nn.TransformerEncoderLayer | nn.TransformerDecoderLayer):
        declaring = [model.self_attn]
    return all(getattr(item, "batch_first", True) is not False for item in declaring)


def _is(model: nn.Module, *kinds: type[nn.Module]) -> bool:
    """Return whether `model` runs the forward of one of `kinds` (a subclass may override it)."""
    return any(isinstance(model, kind) and type(model).forward is kind.forward for kind in kinds)


def _of_architecture(model: Any) -> dict[str, Any]:
    """Return the inputs that the architectures' own maker gives a Hugging Face model."""
    from attnscope.targets.architectures.inputs import make_inputs as make
    from attnscope.targets.architectures.plan import Plan

    doing = f"making inputs for {type(model).__name__}"
    with torch.random.fork_rng(devices=[]):
        try:
            made = make(Plan(config=model.config, model=model), 0)
        except (AttributeError, KeyError, TypeError, ValueError, RuntimeError) as error:
            raise TargetError(doing, describe(error), HOW) from error
    if not made:
        raise TargetError(doing, "none of its forward's arguments is known", HOW)
    return made
