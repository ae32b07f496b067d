"""Which heads a training step of one's own really trains: gradients of the weights, per head.

python examples/training_step.py
"""

from __future__ import annotations

import torch
from torch import nn

import attnscope


def main() -> None:
    """Run one step under ``attnscope.record`` and print one line a call."""
    torch.manual_seed(0)
    model = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(d_model=32, nhead=4, dim_feedforward=64, batch_first=True),
        num_layers=2,
    )
    tokens, target = torch.randn(3, 10, 32), torch.randn(3, 10, 32)

    with attnscope.record(model) as trace:
        loss = nn.functional.mse_loss(model(tokens), target)
        loss.backward()

    for call in trace:
        gradient = call.grad("weights").square().sum(dim=(0, 2, 3)).sqrt()  # (heads,)
        per_head = "  ".join(f"{value:.2e}" for value in gradient.tolist())
        print(f"{call.module:24} {call.kind:8} |d loss / d weights| per head: {per_head}")


if __name__ == "__main__":
    main()
