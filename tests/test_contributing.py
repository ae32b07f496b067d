"""The adapter that CONTRIBUTING.md shows works as it stands there."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import attnscope
from attnscope.capture.adapters import ADAPTERS, REBOUND

PAGE = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text(encoding="utf-8")


def attend(q: Tensor, k: Tensor, v: Tensor, hide: Tensor | None = None) -> Tensor:
    """Return the context (batch, tokens, heads, dim), as a kernel would: in one step."""
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    visible = None if hide is None else ~hide
    return F.scaled_dot_product_attention(q, k, v, attn_mask=visible).transpose(1, 2)


@pytest.fixture
def adapter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the adapter of the page in place, and a package for it."""
    block = re.search(r"^```python\n(.*?)^```$", PAGE, flags=re.DOTALL | re.MULTILINE)
    assert block is not None
    names: dict[str, Any] = {}
    exec(compile(block[1], "CONTRIBUTING.md", "exec"), names)  # noqa: S102  the page's own code
    package = ModuleType("fastkernels")
    package.attend = attend  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "fastkernels", package)
    made = (names["FastAttention"](),)
    monkeypatch.setattr("attnscope.capture.session.ADAPTERS", (*ADAPTERS, *made))
    monkeypatch.setattr("attnscope.capture.session.REBOUND", (*REBOUND, *made))


@pytest.mark.usefixtures("adapter")
@pytest.mark.parametrize("masked", [False, True])
def test_the_adapter_reads_its_kernel(masked: bool) -> None:  # noqa: FBT001  a case
    q, k, v = (torch.randn(2, length, 4, 8) for length in (5, 7, 7))
    hide = torch.rand(5, 7) < 0.3 if masked else None
    expected = attend(q, k, v, hide)

    trace = attnscope.trace(lambda: sys.modules["fastkernels"].attend(q, k, v, hide))
    assert torch.equal(trace.output, expected)
    (call,) = trace
    assert call.kind == "fastkernels"
    assert (call.heads, call.queries, call.keys) == (4, 5, 7)
    assert call.recipe.mask.hides == masked
    assert call.replay_error is not None
    assert call.replay_error < 1e-5
