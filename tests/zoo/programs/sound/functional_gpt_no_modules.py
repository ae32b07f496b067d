"""A GPT in the picoGPT manner: parameters in a flat list, the forward all functions."""

import torch
import torch.nn as nn
import torch.nn.functional as F

N_HEAD, N_EMBD, N_LAYER, VOCAB, N_CTX = 2, 38, 2, 51, 32


def attention(q, k, v, mask):
    return torch.softmax(q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5 + mask, dim=-1) @ v


def mha(x, c_attn, c_proj, n_head):
    x = F.linear(x, *c_attn)
    qkv_heads = [part.chunk(n_head, dim=-1) for part in x.chunk(3, dim=-1)]
    causal_mask = (1 - torch.tril(torch.ones(x.shape[-2], x.shape[-2], device=x.device))) * -1e10
    out_heads = [attention(q, k, v, causal_mask) for q, k, v in zip(*qkv_heads)]
    return F.linear(torch.cat(out_heads, dim=-1), *c_proj)


def transformer_block(x, ln_1, c_attn, c_proj, ln_2, c_fc, c_out):
    width = (x.shape[-1],)
    x = x + mha(F.layer_norm(x, width, *ln_1), c_attn, c_proj, N_HEAD)
    return x + F.linear(F.gelu(F.linear(F.layer_norm(x, width, *ln_2), *c_fc)), *c_out)


class FunctionalGPT(nn.Module):
    def __init__(self):
        super().__init__()

        def linear(name, n_in, n_out):
            self.register_parameter(name + "_w", nn.Parameter(torch.randn(n_out, n_in) * n_in**-0.5))
            self.register_parameter(name + "_b", nn.Parameter(torch.zeros(n_out)))

        def norm(name):
            self.register_parameter(name + "_w", nn.Parameter(torch.ones(N_EMBD)))
            self.register_parameter(name + "_b", nn.Parameter(torch.zeros(N_EMBD)))

        self.wte = nn.Parameter(torch.randn(VOCAB, N_EMBD) * 0.1)
        self.wpe = nn.Parameter(torch.randn(N_CTX, N_EMBD) * 0.1)
        for i in range(N_LAYER):
            norm(f"h{i}_ln1")
            linear(f"h{i}_attn", N_EMBD, 3 * N_EMBD)
            linear(f"h{i}_proj", N_EMBD, N_EMBD)
            norm(f"h{i}_ln2")
            linear(f"h{i}_fc", N_EMBD, 4 * N_EMBD)
            linear(f"h{i}_out", 4 * N_EMBD, N_EMBD)
        norm("ln_f")

    def pair(self, name):
        return getattr(self, name + "_w"), getattr(self, name + "_b")

    def forward(self, ids):
        x = self.wte[ids] + self.wpe[: ids.shape[-1]]
        for i in range(N_LAYER):
            names = ("ln1", "attn", "proj", "ln2", "fc", "out")
            x = transformer_block(x, *(self.pair(f"h{i}_{n}") for n in names))
        return F.layer_norm(x, (N_EMBD,), *self.pair("ln_f")) @ self.wte.T


with torch.random.fork_rng():
    torch.manual_seed(121)
    model = FunctionalGPT().eval()

inputs = torch.randint(0, VOCAB, (2, 9), generator=torch.Generator().manual_seed(122))
