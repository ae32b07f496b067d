"""Deep interest network: the candidate ad looks at the user's behaviour history."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class LocalActivationUnit(nn.Module):
    def __init__(self, emb_dim, hidden=(36, 12)):
        super().__init__()
        dims = [4 * emb_dim, *hidden]
        layers = []
        for a, b in zip(dims[:-1], dims[1:]):
            layers += [nn.Linear(a, b), nn.PReLU()]
        layers.append(nn.Linear(dims[-1], 1))
        self.mlp = nn.Sequential(*layers)

    def forward(self, query, facts):
        q = query.unsqueeze(1).expand_as(facts)
        return self.mlp(torch.cat([q, facts, q - facts, q * facts], dim=-1)).squeeze(-1)


class AttentionSequencePoolingLayer(nn.Module):
    def __init__(self, emb_dim):
        super().__init__()
        self.att = LocalActivationUnit(emb_dim)

    def forward(self, query, keys, keys_length):
        B, T, _ = keys.shape
        score = self.att(query, keys)                                   # B, T
        mask = torch.arange(T, device=keys.device)[None] < keys_length[:, None]
        score = score.masked_fill(~mask, -2 ** 32 + 1)
        weight = F.softmax(score / keys.size(-1) ** 0.5, dim=-1)
        return torch.matmul(weight.unsqueeze(1), keys).squeeze(1)


class DIN(nn.Module):
    def __init__(self, n_items=40, n_users=12, emb_dim=16):
        super().__init__()
        self.item = nn.Embedding(n_items, emb_dim)
        self.user = nn.Embedding(n_users, emb_dim)
        self.pool = AttentionSequencePoolingLayer(emb_dim)
        self.dnn = nn.Sequential(nn.Linear(3 * emb_dim, 32), nn.PReLU(), nn.Linear(32, 1))

    def forward(self, user, item, hist, hist_len):
        ad, h = self.item(item), self.item(hist)
        interest = self.pool(ad, h, hist_len)
        return torch.sigmoid(self.dnn(torch.cat([self.user(user), ad, interest], -1))).squeeze(-1)


def model():
    with torch.random.fork_rng():
        torch.manual_seed(44)
        return DIN().eval()


def inputs():
    return {"user": torch.tensor([1, 4, 9]), "item": torch.tensor([11, 30, 2]),
            "hist": torch.tensor([[5, 6, 7, 8, 9], [12, 13, 3, 3, 3], [22, 3, 3, 3, 3]]),
            "hist_len": torch.tensor([5, 2, 1])}


expect = {"padding": "hist_len lengths"}
