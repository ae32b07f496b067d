"""Local layers of a small model: the helper that makes masks knows windows, its caller has one."""

import torch
from torch import nn
from torch.nn import functional as F


class Settings(dict):
    __getattr__ = dict.get


def visible(length, *, window_size=None):
    distance = torch.arange(length).unsqueeze(1) - torch.arange(length)
    keep = distance.ge(0)
    return keep if window_size is None else keep.logical_and(distance.lt(window_size))


class Local(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.embed = nn.Embedding(config.words, config.width)
        self.places = nn.Embedding(40, config.width)
        self.attend = nn.ModuleList(nn.Linear(config.width, 3 * config.width) for _ in range(2))
        self.out = nn.ModuleList(nn.Linear(config.width, config.width) for _ in range(2))

    def forward(self, ids):
        t = ids.shape[1]
        x = self.embed(ids) + self.places.weight[:t]
        mask = visible(t)  # fault: AS306|AS210
        for attend, out in zip(self.attend, self.out):
            q, k, v = (y.unflatten(-1, (4, -1)).transpose(1, 2) for y in attend(x).chunk(3, dim=-1))
            x = x + out(F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2).flatten(2))
        return x


with torch.random.fork_rng():
    torch.manual_seed(53)
    model = Local(Settings(words=60, width=32, sliding_window=5)).eval()
inputs = torch.randint(0, 60, (2, 14), generator=torch.Generator().manual_seed(53))
expect = {"causal": True}
