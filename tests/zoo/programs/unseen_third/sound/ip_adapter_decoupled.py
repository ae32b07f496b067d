"""IP-Adapter: a second cross-attention for image tokens is added to the text one, with its own weight."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class IPAttnProcessor(nn.Module):
    def __init__(self, d=32, ctx=24, heads=4, scale=0.6, num_tokens=3):
        super().__init__()
        self.heads, self.scale, self.num_tokens = heads, scale, num_tokens
        self.to_q, self.to_k, self.to_v = nn.Linear(d, d, bias=False), nn.Linear(ctx, d, bias=False), nn.Linear(ctx, d, bias=False)
        self.to_k_ip, self.to_v_ip = nn.Linear(ctx, d, bias=False), nn.Linear(ctx, d, bias=False)
        self.to_out = nn.Linear(d, d)

    def forward(self, hidden_states, encoder_hidden_states):
        residual = hidden_states
        end = encoder_hidden_states.shape[1] - self.num_tokens
        text, image = encoder_hidden_states[:, :end], encoder_hidden_states[:, end:]
        heads = lambda t: t.view(t.shape[0], -1, self.heads, t.shape[-1] // self.heads).transpose(1, 2)
        q = heads(self.to_q(hidden_states))
        a = F.scaled_dot_product_attention(q, heads(self.to_k(text)), heads(self.to_v(text)))
        b = F.scaled_dot_product_attention(q, heads(self.to_k_ip(image)), heads(self.to_v_ip(image)))
        y = (a + self.scale * b).transpose(1, 2).flatten(2)
        return self.to_out(y) + residual


with torch.random.fork_rng():
    torch.manual_seed(5)
    model = IPAttnProcessor().eval()
_g = torch.Generator().manual_seed(5)
inputs = {"hidden_states": torch.randn(2, 20, 32, generator=_g), "encoder_hidden_states": torch.randn(2, 10, 24, generator=_g)}
