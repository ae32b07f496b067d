"""How many heads an attention has and how wide they are, read from its modules and configs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn

HEADS = "num_attention_heads num_heads n_heads n_head heads nhead nheads num_head h H n_h".split()
KV_HEADS = (
    "num_key_value_heads num_kv_heads n_kv_heads kv_heads n_kv_head n_kv num_query_groups"
    " n_query_groups num_groups n_local_kv_heads".split()
)
HEAD_DIM = (
    "head_dim dim_head d_head attention_head_size d_k d_kv head_size dim_per_head hd dh"
    " head_width kv_channels".split()
)
CONFIGS = ("config", "cfg", "args", "params", "hparams")


@dataclass(frozen=True, slots=True)
class Geometry:
    """Heads of one attention; None where nothing says."""

    heads: int | None = None
    kv_heads: int | None = None
    head_dim: int | None = None

    @property
    def rows(self) -> dict[str, int] | None:
        """The rows of q, k and v, where the geometry is whole."""
        if self.heads is None or self.head_dim is None:
            return None
        kv = (self.kv_heads or self.heads) * self.head_dim
        return {"q": self.heads * self.head_dim, "k": kv, "v": kv}


def geometry_at(model: nn.Module, path: Sequence[str], q_rows: int | None = None) -> Geometry:
    """Return the heads of the attention that a tensor under `path` belongs to.

    Args:
        model: the whole model.
        path: where the tensor is; what stands innermost is believed first.
        q_rows: the rows of q where they are known, which complete heads or their width.
    """
    holders = list(_holders(model, path))
    heads, dim = _number(holders, HEADS), _number(holders, HEAD_DIM)
    kv_heads = 1 if _multi_query(holders) else _number(holders, KV_HEADS)
    if dim is None and heads and q_rows and q_rows % heads == 0:
        dim = q_rows // heads
    if heads is None and dim and q_rows and q_rows % dim == 0:
        heads = q_rows // dim
    width = _number(holders, ["hidden_size", "embed_dim", "d_model", "n_embd", "dim"])
    if dim is None and heads and width and width % heads == 0:
        dim = width // heads
    return Geometry(heads, kv_heads or heads, dim)


def _holders(model: nn.Module, path: Sequence[str]) -> Iterator[Any]:
    chain: list[Any] = [model]
    for part in path:
        module = getattr(chain[-1], part, None)
        if not isinstance(module, nn.Module):
            break
        chain.append(module)
    for module in reversed(chain):
        yield module
        for name in CONFIGS:
            config = vars(module).get(name)
            if config is not None:
                yield config


def _number(holders: Sequence[Any], names: Sequence[str]) -> int | None:
    for holder in holders:
        for name in names:
            value = named_in(holder, name)
            if isinstance(value, int) and not isinstance(value, bool) and value > 0:
                return value
    return None


def _multi_query(holders: Sequence[Any]) -> bool:
    """Whether Falcon's or GPTBigCode's flag says that all heads share one key and value."""
    for holder in holders:
        if named_in(holder, "new_decoder_architecture") is True:
            return False
        if named_in(holder, "multi_query") is True:
            return True
    return False


def named_in(holder: Any, name: str) -> object:
    """Return what a config, a mapping or a module itself has under a name; None: nothing."""
    if isinstance(holder, Mapping):
        return holder.get(name)
    if isinstance(holder, nn.Module):
        return vars(holder).get(name)
    try:
        return getattr(holder, name, None)
    except Exception:  # noqa: BLE001  a config may refuse a value that differs between layers
        return None
