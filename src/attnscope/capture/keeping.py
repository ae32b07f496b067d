"""How much of a call is kept once it is complete."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from attnscope.calls.call import Call


@dataclass(frozen=True, slots=True)
class Keep:
    """What to keep of each call ("all", "qkv", "numbers"), and on which device."""

    what: str
    device: torch.device | None = None


def keep_only(call: Call, keep: Keep) -> None:
    """Reduce `call` to what is wanted."""
