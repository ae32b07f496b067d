"""Hard attention: each decoder step looks at exactly one encoder state."""

import torch
from torch import nn
import torch.nn.functional as F


class HardAttention(nn.Module):
    def __init__(self, dec=26, enc=34, att=20):
        super().__init__()
        self.W_query = nn.Linear(dec, att)
        self.W_key = nn.Linear(enc, att)
        self.W_value = nn.Linear(enc, dec)
        self.combine = nn.Linear(2 * dec, dec)

    def forward(self, states, encoder_outputs):
        scores = torch.bmm(self.W_query(states), self.W_key(encoder_outputs).transpose(1, 2))
        soft = F.softmax(scores / self.W_query.out_features**0.5, dim=-1)
        hard = F.one_hot(soft.argmax(dim=-1), soft.shape[-1]).to(soft.dtype)
        hard = hard + soft - soft.detach()
        context = torch.bmm(hard, self.W_value(encoder_outputs))
        return torch.tanh(self.combine(torch.cat([states, context], dim=-1)))


with torch.random.fork_rng():
    torch.manual_seed(143)
    model = HardAttention().train()

inputs = {
    "states": torch.randn(3, 5, 26, generator=torch.Generator().manual_seed(143)),
    "encoder_outputs": torch.randn(3, 9, 34, generator=torch.Generator().manual_seed(144)),
}
# note: AS501
