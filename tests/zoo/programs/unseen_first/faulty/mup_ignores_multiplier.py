"""muP decoder layer: scores divided by the head width itself, as declared in the config."""
from dataclasses import dataclass

import torch
from torch import nn


@dataclass(frozen=True)
class MuConfig:
    width: int = 48
    heads: int = 3
    attention_multiplier: float = 1 / 16


class MuAttention(nn.Module):
    def __init__(self, config: MuConfig = MuConfig()):
        super().__init__()
        self.config = config
        self.scaling = (config.width // config.heads) ** -0.5
        w = config.width
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = (nn.Linear(w, w, bias=False) for _ in range(4))

    def forward(self, hidden_states):
        input_shape = hidden_states.shape[:-1]
        hidden_shape = (*input_shape, self.config.heads, -1)
        query = self.q_proj(hidden_states).view(hidden_shape).transpose(1, 2)
        key = self.k_proj(hidden_states).view(hidden_shape).transpose(1, 2)
        value = self.v_proj(hidden_states).view(hidden_shape).transpose(1, 2)
        weights = torch.matmul(query, key.transpose(2, 3)) * self.scaling  # fault: AS306
        n = input_shape[1]
        weights = weights + torch.full((n, n), torch.finfo(weights.dtype).min).triu(1)
        weights = weights.softmax(-1)
        output = torch.matmul(weights, value).transpose(1, 2).reshape(*input_shape, -1)
        return self.o_proj(output)


with torch.random.fork_rng():
    torch.manual_seed(13)
    model = MuAttention().eval()
inputs = {"hidden_states": torch.randn(2, 10, 48, generator=torch.Generator().manual_seed(4))}
