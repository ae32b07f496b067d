"""Mini GPT block, dropout config as plain float."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Attention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.n_head, self.attn_pdrop = config["n_head"], config["attn_pdrop"]
        d = config["n_embd"]
        self.Wqkv, self.out_proj = nn.Linear(d, 3 * d, bias=False), nn.Linear(d, d, bias=False)
        self.resid_dropout = nn.Dropout(config["resid_pdrop"])

    def forward(self, x):
        b, s, d = x.shape
        q, k, v = self.Wqkv(x).view(b, s, 3, self.n_head, d // self.n_head).transpose(1, 3).unbind(2)
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=self.attn_pdrop if self.training else 0, is_causal=True)
        return self.resid_dropout(self.out_proj(y.transpose(1, 2).flatten(-2)))


torch.manual_seed(0)
model = Attention({"n_head": 4, "n_embd": 32, "attn_pdrop": 0.15, "resid_pdrop": 0.1}).eval()
inputs = torch.randn(2, 9, 32, generator=torch.Generator().manual_seed(0))
