"""Entity encoder of a strategy-game agent; q, k, v from chunk, heads by view, fused attention."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class EntityAttention(nn.Module):
    def __init__(self, width=36, heads=4):
        super().__init__()
        self.heads = heads
        self.qkv, self.post = nn.Linear(width, width * 3), nn.Linear(width, width)

    def forward(self, entities):
        batch, count, width = entities.shape
        q, k, v = [part.view(batch, count, self.heads, width // self.heads) for part in self.qkv(entities).chunk(3, dim=-1)]
        q, k, v = q.permute(0, 2, 1, 3), k.permute(0, 2, 1, 3), v.permute(0, 2, 1, 3)
        mixed = F.scaled_dot_product_attention(q, k, v).permute(0, 2, 1, 3)
        return entities + self.post(mixed.reshape(batch, count, width))


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Sequential(nn.Linear(10, 36), nn.ReLU())
        self.layers = nn.ModuleList([EntityAttention() for _ in range(3)])
        self.norm = nn.LayerNorm(36)
        self.policy, self.value = nn.Linear(36, 6), nn.Linear(36, 1)

    def forward(self, entities):
        x = self.embed(entities)
        for layer in self.layers:
            x = layer(x)
        x = self.norm(x).mean(1)
        return self.policy(x), self.value(x)


with torch.random.fork_rng():
    torch.manual_seed(141)
    model = Agent().eval()
inputs = torch.randn(3, 19, 10, generator=torch.Generator().manual_seed(141))
expect = {"positions": False}
