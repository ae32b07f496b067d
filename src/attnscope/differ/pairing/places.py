"""Where each tensor of a model belongs: its stack, layer and zone, read from its paths.

Layers are found by structure (a list of modules that hold modules), zones (attention, cross
attention, feed-forward) by the words of `words.py` in names and classes.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from torch import nn

from attnscope.differ.pairing import words
from attnscope.differ.pairing.tensors import Kind, Weight, is_bias, kind_of

_NUMBERED = re.compile(r"(?:layer|block|blk|h)_?(\d+)", re.IGNORECASE)
_WEIGHTS = {"weight", "w", "gamma", "g", "gain", "scale", "kernel", "a_2"}
_BIASES = {"bias", "b", "beta", "b_2", "shift"}
_ATTENTION_PARTS = {"q", "k", "v", "qkv", "kv", "qk"}
_WRAPPED: set[Kind] = {"linear", "conv1d", "embedding", "conv"}
_PLAIN_LAYERS = set("up down gate wi wo gate_up fc_in fc_out".split())


@dataclass(frozen=True, slots=True, order=True)
class Role:
    """What a tensor is. `layer` is -1 outside the layers; `number` counts those alike."""

    stack: int
    layer: int
    zone: str
    part: str
    leaf: str
    number: int = 0

    def __str__(self) -> str:
        """Return the role in words."""
        where = f"layer {self.layer} " if self.layer >= 0 else ""
        return " ".join(f"{where}{self.zone} {self.part} {self.leaf}".split())


@dataclass(slots=True)
class Slot:
    """Tensors that belong together: the weight and the bias of one layer or projection.

    path: modules that lead to it, and the name of a raw parameter; start: where the path inside
    the layer begins; raw: whether the last of the path is a parameter, not a module; told: whether
    its own name says its part.
    """

    path: tuple[str, ...]
    raw: bool
    kind: Kind
    order: int
    start: int = 0
    stack: int = 0
    layer: int = -1
    zone: str = ""
    zone_root: str = ""
    part: str = ""
    told: bool = False
    number: int = 0
    leaves: dict[str, Weight] = field(default_factory=dict)

    @property
    def inside(self) -> tuple[str, ...]:
        """The path inside the layer."""
        return self.path[self.start :]

    @property
    def home(self) -> tuple[str, ...]:
        """The path of the module that holds it, also where it stands in a numbered list there."""
        numbered = len(self.inside) > 1 and self.path[-1].isdigit()
        return self.path[:-2] if numbered else self.path[:-1]

    @property
    def word(self) -> str:
        """What its own name says, without the number in a list."""
        return words.core(self.path[len(self.home)]) if self.path else ""

    @property
    def main(self) -> Weight:
        """Its weight, else whatever it holds."""
        return self.leaves.get("weight") or next(iter(self.leaves.values()))

    @property
    def size(self) -> tuple[int, ...]:
        """The shape of its weight as (outputs, inputs), as far as the kind of layer says."""
        turned = self.kind == "conv1d" and len(self.main.shape) == 2
        return self.main.shape[::-1] if turned else self.main.shape

    @property
    def projects(self) -> bool:
        """Whether it is a projection."""
        return self.kind not in {"norm", "embedding"} and (
            len(self.main.shape) > 1 or set(self.leaves) == {"bias"}
        )

    def role(self, leaf: str) -> Role:
        """Return the role of one of its tensors."""
        return Role(self.stack, self.layer, self.zone, self.part, leaf, self.number)


def slots_of(model: nn.Module, weights: Sequence[Weight]) -> list[Slot]:
    """Return the slots of a model with stack, layer and zone, their parts not yet named."""
    modules = dict(model.named_modules(remove_duplicate=False))
    found: dict[object, Slot] = {}
    for weight in weights:
        for name, owner in zip(weight.names, weight.owners, strict=True):
            _add(found, _unwrapped(name, modules), owner, weight)
    slots = list(found.values())
    _find_layers(slots, modules)
    _find_zones(slots, modules)
    _merge_layers(slots)
    return slots


def _unwrapped(name: str, modules: Mapping[str, nn.Module]) -> str:
    """Return the name without the module that an adapter (LoRA) put around a layer."""
    home, _, own = name.rpartition(".")
    outer, _, inner = home.rpartition(".")
    if not outer:
        return name
    around = modules[outer]
    layers = [part for part, child in around.named_children() if kind_of(child) in _WRAPPED]
    parts = [type(around).__name__, *around._modules, *around._parameters]  # noqa: SLF001  all, also those that are None
    adapted = any(words.ADAPTER.search(part) for part in parts)
    plain = [part for part in layers if not words.LOW_RANK.search(part)]
    return f"{outer}.{own}" if adapted and plain == [inner] else name


def _add(found: dict[object, Slot], name: str, owner: nn.Module, weight: Weight) -> None:
    """Put a tensor in its slot: a raw parameter's own name is part of the path."""
    home, _, own = name.rpartition(".")
    path = tuple(home.split(".")) if home else ()
    kind = kind_of(owner)
    last = words.tokens(path[-1]) if path else []
    if kind == "raw" and len(weight.shape) == 1 and words.NORM_TOKENS & {*last, *words.tokens(own)}:
        kind = "norm"
    plain = own.lower() in _WEIGHTS | _BIASES and (bool(path) or kind != "raw")
    if plain or kind == "norm":
        leaf = own.lower()
        leaf = "weight" if leaf in _WEIGHTS else "bias" if leaf in _BIASES else own
        slot = found.setdefault(path, Slot(path, raw=False, kind=kind, order=weight.order))
    else:
        extra = own in {"bias_k", "bias_v"}  # of nn.MultiheadAttention: one more key and value
        leaf = "bias" if is_bias(own, weight.shape) and not extra else "weight"
        key = (*path, "", own if extra else words.core(own))
        slot = found.setdefault(key, Slot((*path, own), raw=True, kind=kind, order=weight.order))
    slot.leaves[leaf] = weight


# layers


def _find_layers(slots: list[Slot], modules: Mapping[str, nn.Module]) -> None:
    """Set the stack, the layer and where the path inside it begins."""
    roots: dict[str, list[Slot]] = defaultdict(list)
    for slot in slots:
        at = _layer_at(slot, modules)
        if at is not None:
            named = _NUMBERED.fullmatch(slot.path[at])
            slot.layer = int(named[1] if named else slot.path[at])
            slot.start = at + 1
            roots[".".join(slot.path[:at])].append(slot)
    ordered = sorted(roots, key=lambda root: (_side(root), roots[root][0].order))
    for stack, root in enumerate(ordered):
        for slot in roots[root]:
            slot.stack = stack
    for slot in slots:
        if slot.layer < 0 and len(ordered) > 1:
            slot.stack = _side(".".join(slot.path)) - 1


def _layer_at(slot: Slot, modules: Mapping[str, nn.Module]) -> int | None:
    """Return which part of the path is the number of a layer: the outermost of its kind."""
    for at, part in enumerate(slot.path[:-1]):
        module = modules[".".join(slot.path[: at + 1])]
        before = set(words.tokens(slot.path[at - 1])) if at else set[str]()
        if _NUMBERED.fullmatch(part) and list(module.children()):
            return at
        if not part.isdigit() or before & words.LISTS_INSIDE:
            continue
        raw = kind_of(module) in {"raw", "attention"}
        if raw and (list(module.children()) or before & words.LAYER_WORDS):
            return at
    return None


def _side(path: str) -> int:
    """Return 1 for what names an encoder, 2 for a decoder, 0 for what names neither."""
    found = {word for part in path.split(".") for word in words.tokens(part)}
    if {"decoder", "dec", "tgt", "target"} & found:
        return 2
    return 1 if {"encoder", "enc", "src", "source"} & found else 0


def _merge_layers(slots: list[Slot]) -> None:
    """Count layers anew where attention and feed-forward stand in the list one by one."""
    by_stack: dict[int, list[Slot]] = defaultdict(list)
    for slot in slots:
        if slot.layer >= 0:
            by_stack[slot.stack].append(slot)
    for found in by_stack.values():
        zones: dict[int, set[str]] = defaultdict(set)
        for slot in found:
            zones[slot.layer] |= {slot.zone} - {""}
        counted: dict[int, int] = {}
        seen, at = set[str](), 0
        for layer in sorted(zones):
            if counted and (seen & zones[layer] or not zones[layer] or not seen):
                at, seen = at + 1, set()
            seen |= zones[layer]
            counted[layer] = at
        for slot in found:
            slot.layer = counted[slot.layer]


# zones


def _find_zones(slots: list[Slot], modules: Mapping[str, nn.Module]) -> None:
    for slot in slots:
        slot.zone, slot.zone_root = _zone(slot, modules)
    homes = {_home(slot) for slot in slots if slot.zone in {"attention", "cross"}}
    roots: dict[tuple[int, int], list[str]] = defaultdict(list)
    for slot in slots:
        beside = not slot.zone and slot.projects and _home(slot) in homes
        if beside and (slot.layer >= 0 or words.part_in("attention", slot.word) == "o"):
            slot.zone = "attention"
        if not slot.zone and slot.kind != "embedding" and slot.layer < 0 and _attends(modules[""]):
            slot.zone = "attention"
        if slot.zone == "attention" and slot.zone_root:
            known = roots[slot.stack, slot.layer]
            if slot.zone_root not in known:
                known.append(slot.zone_root)
            if slot.layer >= 0 and known.index(slot.zone_root) == 1:
                slot.zone = "cross"


def _home(slot: Slot) -> tuple[int, int, tuple[str, ...]]:
    return slot.stack, slot.layer, slot.home


def _attends(module: nn.Module) -> bool:
    name = type(module).__name__.lower()
    return "attention" in name or "multihead" in name or name in {"mha", "gqa", "mqa", "mla"}


def _zone(slot: Slot, modules: Mapping[str, nn.Module]) -> tuple[str, str]:
    """Return the zone that a slot's path speaks of, and the path of the module that is the zone."""
    for at in range(slot.start, len(slot.path)):
        if at == len(slot.path) - 1 and (slot.raw or slot.kind not in {"raw", "attention"}):
            break
        root = ".".join(slot.path[: at + 1])
        found = words.tokens(slot.path[at])
        either = {*found, "".join(found)}
        kind = modules.get(root)
        if either & words.ATTENTION_TOKENS or (kind is not None and _attends(kind)):
            return ("cross" if either & words.CROSS else "attention"), root
        name = type(kind).__name__.lower()
        if either & words.FEEDFORWARD_TOKENS or re.search("mlp|feedforward|ffn", name):
            return "feedforward", root
    return _zone_by_name(slot), ""


def _zone_by_name(slot: Slot) -> str:
    """Return the zone of a projection that stands in the layer (or the model) itself."""
    if not slot.projects or not slot.inside:
        return ""
    own = set(words.tokens(slot.path[-1]))
    three = len(slot.size) == 2 and max(slot.size) == 3 * min(slot.size)
    if words.part_in("attention", slot.word) in _ATTENTION_PARTS and (slot.word != "in" or three):
        return "cross" if own & words.CROSS else "attention"
    if slot.layer >= 0 and len(slot.inside) > 1 and slot.inside[-2] == "output":
        return "feedforward"  # BERT's output.dense
    telling = any(letter.isdigit() for letter in slot.word) or slot.word in _PLAIN_LAYERS
    known = words.part_in("feedforward", slot.word) is not None
    if telling and (known or re.fullmatch(r"w?\d", slot.word)):
        return "feedforward"
    return "feedforward" if own & {"mlp", "ff", "ffn"} else ""
