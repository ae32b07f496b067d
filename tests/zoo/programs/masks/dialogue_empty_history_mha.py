"""Response scorer: the last turn reads a history of retrieved turns with nn.MultiheadAttention."""

import torch
from torch import nn


class HistoryReader(nn.Module):
    def __init__(self, dim=24, heads=3):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.read = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.score = nn.Sequential(nn.Linear(dim, dim), nn.Tanh(), nn.Linear(dim, 1))

    def forward(self, turn, history, history_len):
        """turn (B, T, D); history (B, N, D); history_len (B,): how many entries of it are real."""
        n = history.size(1)
        is_pad = torch.arange(n, device=turn.device).unsqueeze(0) >= history_len.unsqueeze(1)
        read, _ = self.read(self.norm(turn), history, history, key_padding_mask=is_pad)  # fault: AS203
        return self.score(turn + read).squeeze(-1)


# also: AS802
with torch.random.fork_rng():
    torch.manual_seed(13)
    model = HistoryReader().eval()


def inputs():
    g = torch.Generator().manual_seed(13)
    return {
        "turn": torch.randn(4, 5, 24, generator=g),
        "history": torch.randn(4, 7, 24, generator=g),
        "history_len": torch.tensor([7, 0, 3, 5]),
    }


expect = {"padding": "history_len lengths"}
