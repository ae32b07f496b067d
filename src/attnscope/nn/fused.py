"""When PyTorch may take its inference path, which computes all of attention in one operation.

The plain module leaves it to PyTorch then, so that it gives the same bits.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

__all__ = ["fuses", "is_plain"]


def is_plain(module: Any) -> bool:
    """Return whether the module is `torch.nn.MultiheadAttention` and no more."""
    parts = (module.scale, module.projections, module.q_norm, module.positions, module.scores)
    others = (module.mask, module.sinks, module.context_norm)
    sizes = module.kv_heads == module.num_heads and module.widths.q == module.embed_dim
    return (
        sizes
        and module.one_output
        and not module.dropouts.any
        and all(x is None for x in (*parts, *others))
    )


def fuses(module: Any, query: Tensor, key: Tensor, value: Tensor) -> bool:
    """Return whether PyTorch may take its inference path with these inputs."""
    if module.training or not is_plain(module):
        return False
    parameters = (module.in_proj_weight, module.in_proj_bias, *module.out_proj.parameters())
    tensors = (query, key, value, *parameters)
    return not (torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in tensors))
