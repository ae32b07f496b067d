"""Action-chunking policy: joint state and camera tokens in, a chunk of actions out."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass
class PolicyConfig:
    hidden_dim: int = 32
    nheads: int = 4
    joints: int = 7
    patch: int = 27
    chunk: int = 6
    cams: int = 10


class EncLayer(nn.Module):
    def __init__(self, c: PolicyConfig):
        super().__init__()
        self.self_attn = nn.MultiheadAttention(c.hidden_dim, c.nheads)
        self.linear1 = nn.Linear(c.hidden_dim, 64)
        self.linear2 = nn.Linear(64, c.hidden_dim)
        self.norm1 = nn.LayerNorm(c.hidden_dim)
        self.norm2 = nn.LayerNorm(c.hidden_dim)

    def forward(self, src: Tensor, pos: Tensor) -> Tensor:
        q = k = src + pos
        src = self.norm1(src + self.self_attn(q, k, value=src)[0])
        return self.norm2(src + self.linear2(self.linear1(src).relu()))


class DecLayer(nn.Module):
    def __init__(self, c: PolicyConfig):
        super().__init__()
        self.self_attn = nn.MultiheadAttention(c.hidden_dim, c.nheads)
        self.multihead_attn = nn.MultiheadAttention(c.hidden_dim, c.nheads)
        self.linear1 = nn.Linear(c.hidden_dim, 64)
        self.linear2 = nn.Linear(64, c.hidden_dim)
        self.norm1 = nn.LayerNorm(c.hidden_dim)
        self.norm2 = nn.LayerNorm(c.hidden_dim)
        self.norm3 = nn.LayerNorm(c.hidden_dim)

    def forward(self, tgt: Tensor, memory: Tensor, pos: Tensor, query_pos: Tensor) -> Tensor:
        q = k = tgt + query_pos
        tgt = self.norm1(tgt + self.self_attn(q, k, value=tgt)[0])
        tgt2 = self.multihead_attn(query=tgt + query_pos, key=memory + pos, value=memory)[0]
        tgt = self.norm2(tgt2 + tgt2)  # fault: AS904
        return self.norm3(tgt + self.linear2(self.linear1(tgt).relu()))


class Policy(nn.Module):
    def __init__(self, c: PolicyConfig):
        super().__init__()
        self.proprio = nn.Linear(c.joints, c.hidden_dim)
        self.camera = nn.Linear(c.patch, c.hidden_dim)
        self.pos_embed = nn.Embedding(c.cams + 1, c.hidden_dim)
        self.query_embed = nn.Embedding(c.chunk, c.hidden_dim)
        self.start = nn.Parameter(torch.randn(c.hidden_dim))
        self.encoder = nn.ModuleList([EncLayer(c), EncLayer(c)])
        self.decoder = nn.ModuleList([DecLayer(c), DecLayer(c)])
        self.action_head = nn.Linear(c.hidden_dim, c.joints)

    def forward(self, qpos: Tensor, image: Tensor) -> Tensor:
        tokens = torch.cat([self.proprio(qpos).unsqueeze(1), self.camera(image)], dim=1)
        src = tokens.transpose(0, 1)
        pos = self.pos_embed.weight.unsqueeze(1)
        for layer in self.encoder:
            src = layer(src, pos)
        query_pos = self.query_embed.weight.unsqueeze(1).expand(-1, src.size(1), -1)
        tgt = self.start.expand_as(query_pos)
        for layer in self.decoder:
            tgt = layer(tgt, src, pos, query_pos)
        return self.action_head(tgt.transpose(0, 1))


def build_policy() -> Policy:
    with torch.random.fork_rng():
        torch.manual_seed(17)
        return Policy(PolicyConfig()).eval()


model = build_policy
_g = torch.Generator().manual_seed(3)
inputs = (torch.randn(5, 7, generator=_g), torch.randn(5, 10, 27, generator=_g))
