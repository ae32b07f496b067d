"""Copy-task transformer trained for a moment on import, as the notebook does."""
import torch
import torch.nn as nn
import torch.nn.functional as F

V, D, H, L = 24, 32, 2, 12


class CopyNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(V, D)
        self.pos = nn.Embedding(L, D)
        self.q, self.k, self.v, self.o = (nn.Linear(D, D) for _ in range(4))
        self.out = nn.Linear(D, V)

    def forward(self, ids):
        b, t = ids.shape
        x = self.emb(ids) + self.pos.weight[:t]
        q, k, v = (m(x).view(b, t, H, D // H).transpose(1, 2) for m in (self.q, self.k, self.v))
        scores = q @ k.transpose(2, 3) / (D // H) ** 0.5
        att = F.softmax(scores, dim=-1)  # fault: AS303|AS302|AS403
        y = (att @ v).transpose(1, 2).reshape(b, t, D)
        return self.out(x + self.o(y))


def train(net, steps=120, lr=0.08):
    gen = torch.Generator().manual_seed(1)
    opt = torch.optim.AdamW(net.parameters(), lr=lr, weight_decay=0.0)  # fault: AS303|AS302|AS403
    for _ in range(steps):
        x = torch.randint(0, V, (16, L), generator=gen)
        y = x.flip(1)
        loss = F.cross_entropy(net(x).flatten(0, 1), y.flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()
    return net


def model():
    with torch.random.fork_rng(), torch.enable_grad():
        torch.manual_seed(0)
        return train(CopyNet()).eval()


inputs = (torch.randint(0, V, (3, L), generator=torch.Generator().manual_seed(2)),)
