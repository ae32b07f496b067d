"""Two-tower recommender: user tower attends over genres, attention weights are post-processed in place."""
import torch
import torch.nn as nn


class UserTower(nn.Module):
    def __init__(self, d=32, h=2):
        super().__init__()
        self.h = h
        self.wq, self.wk, self.wv = nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d)
        self.out = nn.Linear(d, d)

    def forward(self, u, genres):
        b, n, d = genres.shape
        q = self.wq(u).view(b, 1, self.h, -1).transpose(1, 2)
        k = self.wk(genres).view(b, n, self.h, -1).transpose(1, 2)
        v = self.wv(genres).view(b, n, self.h, -1).transpose(1, 2)
        w = torch.softmax(q @ k.transpose(2, 3) / (d // self.h) ** 0.5, -1)
        y = torch.matmul(w, v)
        return u + self.out(y.transpose(1, 2).reshape(b, d))


class TwoTower(nn.Module):
    def __init__(self, users=30, genres=18, d=32):
        super().__init__()
        self.u, self.g = nn.Embedding(users, d), nn.Embedding(genres, d)
        self.tower = UserTower(d)
        self.item = nn.Linear(5, d)

    def forward(self, user, genre_ids, item):
        z = self.tower(self.u(user), self.g(genre_ids))
        return (z * self.item(item)).sum(-1)


with torch.random.fork_rng():
    torch.manual_seed(104)
    model = TwoTower().eval()
_g = torch.Generator().manual_seed(104)
inputs = (torch.randint(0, 30, (4,), generator=_g), torch.randint(0, 18, (4, 6), generator=_g), torch.randn(4, 5, generator=_g))
