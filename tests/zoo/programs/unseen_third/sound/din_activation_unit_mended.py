"""Deep interest network: the candidate item attends to the user's clicks through a small MLP."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class LocalActivationUnit(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.fc = nn.Sequential(nn.Linear(4 * dim, 36), nn.PReLU(), nn.Linear(36, 1))

    def forward(self, query, user_behavior, mask):
        seq_len = user_behavior.size(1)
        queries = query.unsqueeze(1).expand(-1, seq_len, -1)
        att_input = torch.cat([queries, user_behavior, queries - user_behavior, queries * user_behavior], dim=-1)
        att = self.fc(att_input).transpose(1, 2)  # (B, 1, T)
        att = att.masked_fill(mask.unsqueeze(1) == 0, -(2**32) + 1)
        att = F.softmax(att, dim=2)
        return torch.matmul(att, user_behavior).squeeze(1)


class DIN(nn.Module):
    def __init__(self, n_items=100, dim=18):
        super().__init__()
        self.emb = nn.Embedding(n_items, dim, padding_idx=0)
        self.att = LocalActivationUnit(dim)
        self.out = nn.Sequential(nn.Linear(3 * dim, 40), nn.Sigmoid(), nn.Linear(40, 1))

    def forward(self, history, candidate):
        h, c = self.emb(history), self.emb(candidate)
        interest = self.att(c, h, (history > 0).long())
        return self.out(torch.cat([interest, c, interest * c], -1)).squeeze(-1)


with torch.random.fork_rng():
    torch.manual_seed(9)
    model = DIN().eval()
_h = torch.randint(1, 100, (6, 13), generator=torch.Generator().manual_seed(6))
_h[0, 8:] = 0
_h[4, 5:] = 0
inputs = {"history": _h, "candidate": torch.tensor([3, 14, 15, 92, 65, 35])}
