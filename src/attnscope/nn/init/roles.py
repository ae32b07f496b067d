"""What part a weight plays, told by its name, and the sizes that a scheme may ask for.

Schemes such as T5's or GPT-2's draw the output projection otherwise than the queries, so a
parameter needs a role before it can be drawn or judged. Names are the only thing that all
libraries share; the vocabulary below is theirs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from attnscope.reference.given import choice, count

__all__ = ["Place", "Role", "role_of"]

Role: TypeAlias = Literal[
    "q", "k", "v", "qkv", "kv", "o", "ff-in", "ff-out", "embedding", "positions", "head", "hidden"
]
"""Part of a weight: a projection of attention (``qkv`` and ``kv`` are several in one tensor), of
the feed-forward, a table, the output head of a model, or any other matrix."""

RESIDUAL: frozenset[Role] = frozenset({"o", "ff-out"})
"""Roles whose output is added to the residual stream."""

_WORDS: dict[Role, frozenset[str]] = {
    "q": frozenset(
        "q query q_proj q_lin query_proj to_q w_q wq linear_q q_b_proj q_linear".split()
    ),
    "k": frozenset("k key k_proj k_lin key_proj to_k w_k wk linear_k k_linear".split()),
    "v": frozenset("v value v_proj v_lin value_proj to_v w_v wv linear_v v_linear".split()),
    "qkv": frozenset(
        "in_proj qkv c_attn to_qkv query_key_value wqkv w_qkv qkv_proj w_pack qkv_linear".split()
    ),
    "kv": frozenset("kv to_kv kv_proj key_value w_kv kv_b_proj".split()),
    "o": frozenset(
        "o o_proj out_proj out_lin to_out to_output w_o linear_out o_linear output_proj".split()
    ),
    "ff-in": frozenset(
        "linear1 fc1 c_fc wi wi_0 wi_1 up_proj gate_proj gate_up_proj gate w1 w3 lin1 "
        "dense_h_to_4h fc_in".split()
    ),
    "ff-out": frozenset("linear2 fc2 down_proj w2 lin2 dense_4h_to_h fc_out".split()),
    "positions": frozenset(
        "wpe position_embeddings embed_positions pos_embed position_embedding "
        "relative_attention_bias".split()
    ),
    "embedding": frozenset(
        "wte embed_tokens word_embeddings token_embedding embed_in shared embedding".split()
    ),
    "head": frozenset("lm_head embed_out head classifier generator unembedding".split()),
}
_IN_CONTEXT = frozenset({"dense", "c_proj", "wo", "proj", "output", "out"})
"""Names that are the output of attention in one place and of the feed-forward in another."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a weight stands: what its expected spread depends on.

    fan_in, fan_out: inputs of one output feature, and output features; drawn_fan_out: output
    features of the tensor that it was drawn in (3·E for a third of a packed projection); residuals:
    weights of the whole model that write to the residual stream; head_dim: width of one head of q.

    Raises:
        InputError: a role of another name, or sizes that are no whole numbers.
    """

    role: Role
    fan_in: int
    fan_out: int
    drawn_fan_out: int = 0
    residuals: int = 0
    head_dim: int = 0

    def __post_init__(self) -> None:
        doing = "saying where a weight stands"
        choice(doing, "the role", self.role, get_args(Role))
        for name in ("fan_in", "fan_out"):
            count(doing, name, getattr(self, name))
        for name in ("drawn_fan_out", "residuals", "head_dim"):
            count(doing, name, getattr(self, name), least=0)

    @property
    def rows(self) -> int:
        """Output features of the tensor that was drawn as one."""
        return max(self.drawn_fan_out, self.fan_out)


def role_of(name: str, *, in_attention: bool = False) -> Role:
    """Return the role of the parameter with the dotted path `name`; "hidden" where none is known.

    in_attention: it is known to belong to an attention, whatever its path says.

    A name that is ambiguous by itself (``c_proj``, ``dense``, ``wo``) is read by what stands before
    it: inside something called attention it is ``o``, elsewhere ``ff-out``.

    Example:
        >>> role_of("transformer.h.0.attn.c_proj.weight")
        'o'
        >>> role_of("transformer.h.0.mlp.c_proj.weight")
        'ff-out'
    """
    parts = [part for part in _parts(name) if not part.isdigit()]
    if not parts:
        return "hidden"
    word, context = parts[-1], ".".join(parts[:-1])
    for role, words in _WORDS.items():
        if word in words:
            return role
    if word in _IN_CONTEXT:
        if in_attention or re.search(r"attn|attention", context):
            return "o"
        if word == "dense" and "intermediate" in context:
            return "ff-in"
        return "ff-out" if context else "hidden"
    return "hidden"


def _parts(name: str) -> list[str]:
    """Return the dotted parts in lower case, without the name of the tensor in its module."""
    parts = name.lower().split(".")
    last = parts[-1]
    if last in {"weight", "bias"}:
        return parts[:-1]
    for ending in ("_weight", "_bias"):
        last = last.removesuffix(ending)
    return [*parts[:-1], last]
