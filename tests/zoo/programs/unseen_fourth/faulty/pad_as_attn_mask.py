"""News recommender: history titles attended with a mask of empty slots."""
import torch
import torch.nn as nn


class UserEncoder(nn.Module):
    def __init__(self, d=32, h=4):
        super().__init__()
        self.mha = nn.MultiheadAttention(d, h, batch_first=True)
        self.pool = nn.Linear(d, 1)

    def forward(self, clicked, empty):
        y, _ = self.mha(clicked, clicked, clicked, attn_mask=empty)  # fault: AS211
        a = self.pool(y).squeeze(-1).masked_fill(empty, -1e9).softmax(-1)
        return (a.unsqueeze(-1) * y).sum(1)


class NRMS(nn.Module):
    def __init__(self, n_news=300, d=32):
        super().__init__()
        self.news = nn.Embedding(n_news, d, padding_idx=0)
        self.user = UserEncoder(d)

    def forward(self, history, candidates):
        u = self.user(self.news(history), history == 0)
        return torch.einsum("bd,bcd->bc", u, self.news(candidates))


torch.manual_seed(22)
model = NRMS().eval()
_g = torch.Generator().manual_seed(22)
_h = torch.randint(1, 300, (3, 8), generator=_g)
_h[0, 6:] = 0
_h[2, 4:] = 0
inputs = {"history": _h, "candidates": torch.randint(1, 300, (3, 5), generator=_g)}
# note: AS501
