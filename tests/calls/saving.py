"""A small trace to save, and a look into the folder that it becomes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

import attnscope
from attnscope.calls.trace import Trace


class Returns(nn.Module):
    """Attention by the fused kernel, whose result `wrap` turns into the model's output."""

    def __init__(self, wrap: Callable[[Tensor], Any] = lambda x: x) -> None:
        super().__init__()
        self.wrap = wrap

    def forward(self, x: Tensor) -> Any:
        return self.wrap(functional.scaled_dot_product_attention(x, x, x, is_causal=True))


def traced(wrap: Callable[[Tensor], Any] = lambda x: x) -> Trace:
    return attnscope.trace(Returns(wrap), torch.randn(2, 3, 5, 8))


def manifest_of(path: Path) -> dict[str, Any]:
    data: dict[str, Any] = json.loads((path / "manifest.json").read_text())
    return data


def tensor_file(path: Path) -> Path:
    return next(path.glob("*.safetensors"))
