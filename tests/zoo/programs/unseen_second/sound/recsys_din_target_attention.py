"""Click model: the candidate item attends to the user's history."""

import torch
import torch.nn as nn


class TargetAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.to_q = nn.Linear(dim, dim)
        self.to_k = nn.Linear(dim, dim)
        self.to_v = nn.Linear(dim, dim)
        self.dim = dim

    def forward(self, candidate, history, hist_len):
        q = self.to_q(candidate).unsqueeze(1)
        k, v = self.to_k(history), self.to_v(history)
        score = torch.bmm(q, k.transpose(1, 2)) / self.dim ** 0.5
        steps = torch.arange(history.size(1), device=history.device)
        score = score.masked_fill((steps >= hist_len[:, None])[:, None], -1e9)
        return torch.bmm(torch.softmax(score, -1), v).squeeze(1)


class ClickModel(nn.Module):
    def __init__(self, n_items=200, dim=28):
        super().__init__()
        self.item = nn.Embedding(n_items, dim)
        self.age = nn.Embedding(40, dim)
        self.att = TargetAttention(dim)
        self.tower = nn.Sequential(nn.Linear(2 * dim, 32), nn.PReLU(), nn.Linear(32, 1))

    def forward(self, candidate, history, hist_len):
        c = self.item(candidate)
        h = self.item(history) + self.age.weight[: history.size(1)]
        interest = self.att(c, h, hist_len)
        return self.tower(torch.cat([c, interest], dim=-1)).squeeze(-1)


def model():
    torch.manual_seed(0)
    return ClickModel().eval()


gen = torch.Generator().manual_seed(12)
inputs = {
    "candidate": torch.randint(0, 200, (7,), generator=gen),
    "history": torch.randint(0, 200, (7, 16), generator=gen),
    "hist_len": torch.tensor([16, 3, 9, 12, 5, 14, 8]),
}
expect = {"padding": "hist_len lengths"}
