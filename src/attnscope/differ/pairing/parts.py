"""Naming the part of each slot: q, k, v, o, up, down, gate, norms, embeddings, head.

A name decides where it says something; else the sizes and the order of registration do.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from torch import nn

from attnscope.differ.pairing import words
from attnscope.differ.pairing.places import Role, Slot, slots_of
from attnscope.differ.pairing.tensors import Weight


def roles_of(model: nn.Module, weights: Sequence[Weight]) -> list[Slot]:
    """Return the slots of a model, each with its part."""
    slots = slots_of(model, weights)
    groups: dict[tuple[int, int, str], list[Slot]] = defaultdict(list)
    for slot in slots:
        if slot.kind == "norm":
            continue
        groups[slot.stack, slot.layer, slot.zone].append(slot)
    for (_, layer, zone), group in groups.items():
        if zone in {"attention", "cross"}:
            _name_attention(group, zone)
        elif zone == "feedforward":
            _name_feedforward(group)
        elif layer < 0:
            _name_outside(group)
            _tell_tokens(group)
    _name_norms(slots)
    _share_relative(slots)
    for slot in slots:
        if not slot.part:
            slot.part = "?" + "_".join(
                word for part in slot.inside if (word := words.core(part)) not in words.GENERIC
            )
    _number(slots)
    return slots


def _share_relative(slots: list[Slot]) -> None:
    """Take a table of relative positions that one layer alone has as its stack's: T5 shares it."""
    tables = [slot for slot in slots if slot.part == "relative"]
    count = Counter(slot.stack for slot in tables)
    for slot in tables:
        if count[slot.stack] == 1:
            slot.layer, slot.zone = -1, ""


def _relative(component: str) -> bool:
    return bool({"relative", "rel", "relpos"} & set(words.tokens(component)))


def _number(slots: list[Slot]) -> None:
    """Count slots with one and the same role, in order of registration."""
    seen: Counter[Role] = Counter()
    for slot in slots:
        role = slot.role("")
        slot.number = seen[role]
        seen[role] += 1


# attention


def _name_attention(group: list[Slot], zone: str) -> None:
    unknown: list[Slot] = []
    for slot in group:
        part = _told(slot, zone)
        if part is None and slot.projects and slot.kind != "embedding" and slot.main.shape:
            unknown.append(slot)
        slot.part, slot.told = part or "", bool(part)
    known = {slot.part for slot in group}
    wide = [slot for slot in unknown if len(slot.size) > 1]
    if {"q", "k", "v"} & known or "qkv" in known or "kv" in known:
        order = ["o"] if "o" not in known else []
    else:
        order = {1: ["qkv"], 2: ["qkv", "o"], 3: ["q", "k", "v"], 4: ["q", "k", "v", "o"]}.get(
            len(wide), []
        )
    if len(wide) == len(order):
        for slot, part in zip(sorted(wide, key=lambda slot: slot.order), order, strict=True):
            slot.part = part
    for slot in group:  # GPT-2's cross attention: a c_attn beside q_attn is keys and values
        if slot.part == "qkv" and "q" in known and "weight" in slot.leaves:
            slot.part = "kv"


def _told(slot: Slot, zone: str) -> str | None:
    """Return the part that the path names, from the inside out, up to the zone itself."""
    end = len(slot.zone_root.split(".")) if slot.zone_root else slot.start
    if slot.word in {"bias_k", "bias_v"} or slot.path[-1] in {"bias_k", "bias_v"}:
        return slot.path[-1]
    for component in reversed(slot.path[end:]):
        word = words.core(component)
        if _relative(component):
            return "relative"
        found = words.part_in(zone, word)
        if found is not None:
            return found
        if word not in words.GENERIC and not word.isdigit():
            return None if zone == "feedforward" else ("" if len(slot.main.shape) < 2 else None)
    return None


# feed-forward


def _name_feedforward(group: list[Slot]) -> None:
    matrices = [slot for slot in group if slot.projects and len(slot.size) == 2]
    matrices.sort(key=lambda slot: slot.order)
    told = {id(slot): _told(slot, "feedforward") for slot in matrices}
    named = [told[id(slot)] for slot in matrices]
    if len(matrices) == 3:
        _name_gated(matrices, told)
    elif len(matrices) == 2:
        first, second = matrices
        if {"up", "down"} == set(named):
            first.part, second.part = str(named[0]), str(named[1])
        else:
            first.part, second.part = "up", "down"
        up, down = (first, second) if first.part == "up" else (second, first)
        if up.main.tensor.numel() == 2 * down.main.tensor.numel():
            up.part = "gate_up"
    for slot in matrices:
        slot.part = slot.part or told[id(slot)] or ""
        slot.told = slot.part == told[id(slot)]


def _name_gated(matrices: list[Slot], told: dict[int, str | None]) -> None:
    """Tell gate, up and down apart: down by its shape, the others by name, else gate first."""
    shapes = Counter(slot.size for slot in matrices)
    odd = [slot for slot in matrices if shapes[slot.size] == 1]
    down = odd[0] if len(odd) == 1 else None
    if down is None:
        called = [slot for slot in matrices if told[id(slot)] == "down"]
        numbered = [slot for slot in matrices if slot.word in {"w2", "2"}]
        down = (called or numbered or matrices[-1:])[0]
    down.part = "down"
    first, second = (slot for slot in matrices if slot is not down)
    if told[id(first)] == "up" and told[id(second)] == "gate":
        first, second = second, first
    elif told[id(second)] != "gate" and second.word < first.word:
        swapped = first.word[:-1] == second.word[:-1]  # w3 registered before w1
        first, second = (second, first) if swapped else (first, second)
    first.part, second.part = "gate", "up"


# norms


def _name_norms(slots: list[Slot]) -> None:
    """Name norms of q and k by their names, the others of a layer by what they say, else order."""
    groups: dict[tuple[int, int], list[Slot]] = defaultdict(list)
    first = min((slot.order for slot in slots if slot.layer >= 0), default=0)
    for slot in slots:
        if slot.kind != "norm":
            continue
        mentioned = {token for part in slot.inside[-1:] for token in words.tokens(part)}
        sided = [
            part for part in ("q", "k", "v", "kv") if {part, _LONG.get(part, part)} & mentioned
        ]
        if sided:
            slot.part, slot.told = f"{sided[0]}_norm", True
            continue
        slot.zone = ""
        if slot.layer >= 0:
            groups[slot.stack, slot.layer].append(slot)
        else:
            early = "emb" in "_".join(slot.path).lower() or slot.order < first
            slot.part = "norm_embed" if early else "norm_final"
    for group in groups.values():
        ranks = {id(slot): _rank(slot) for slot in group}
        if None not in ranks.values() and len(set(ranks.values())) == len(group):
            group.sort(key=lambda slot: ranks[id(slot)] or 0)
        else:
            group.sort(key=lambda slot: slot.order)
        for slot, number in zip(group, range(len(group)), strict=True):
            slot.part = f"norm_{number + 1}_of_{len(group)}"


_LONG = {"q": "query", "k": "key", "v": "value"}


def _rank(slot: Slot) -> int | None:
    """Return where a norm stands in its layer, as far as its name tells it without doubt."""
    found = words.tokens("_".join(slot.inside))
    last = words.tokens(slot.inside[-1]) if slot.inside else []
    numbers = [int(token) for token in last if token.isdigit()]
    if numbers and len(slot.inside) == 1:
        return numbers[-1]
    if {"post", "pre", "input"} & set(found):
        return None
    if set(found) & words.CROSS:
        return 1
    if set(found) & (words.FEEDFORWARD_TOKENS | {"final"}):
        return 2
    return 0 if set(found) & words.ATTENTION_TOKENS else None


# outside the layers


def _tell_tokens(group: list[Slot]) -> None:
    """Say that a table of tokens is what it is called, where it is the only one."""
    tokens = [slot for slot in group if slot.part == "tokens"]
    for slot in tokens:
        slot.told = len(tokens) == 1


def _name_outside(group: list[Slot]) -> None:
    tables = [slot for slot in group if slot.kind == "embedding"]
    vocabularies = set()
    for slot in group:
        found = {token for part in slot.path for token in words.tokens(part)}
        table = slot.kind == "embedding" or (slot.raw and len(slot.main.shape) > 1)
        if any(_relative(part) for part in slot.path):
            slot.part = "relative"
        elif table and found & words.POSITION:
            slot.part, slot.told = "positions", True
        elif table and found & words.TYPE:
            slot.part = "types"
        elif slot in tables:
            slot.part = "tokens"
            vocabularies.add(slot.main.shape[0])
    for slot in group:
        if slot.part or not slot.projects or not slot.path:
            continue
        wide = bool(slot.size) and slot.size[0] in vocabularies
        near = {words.core(part) for part in slot.path[-2:]} | {slot.path[-1].lower()}
        if wide:
            head = slot.size[0] != slot.size[-1] or bool(near & words.HEAD)
        else:
            head = slot.path[-1].lower() in words.HEAD
        if head:
            slot.part = "head"
