"""Book chapter rewritten on scaled_dot_product_attention with a buffered mask, https://github.com/rasbt/LLMs-from-scratch/issues/1061."""

import torch
import torch.nn as nn


class MHAPyTorchSDPAWithoutFlash(nn.Module):
    def __init__(self, d_in, d_out, num_heads, context_length, dropout=0.0, qkv_bias=False):
        super().__init__()
        assert d_out % num_heads == 0, "embed_dim is indivisible by num_heads"
        self.num_heads = num_heads
        self.head_dim = d_out // num_heads
        self.d_out = d_out
        self.qkv = nn.Linear(d_in, 3 * d_out, bias=qkv_bias)
        self.proj = nn.Linear(d_out, d_out)
        self.dropout = dropout
        self.register_buffer("mask", torch.triu(torch.ones(context_length, context_length), diagonal=1).bool())  # fault: AS205|AS201

    def forward(self, x):
        batch_size, num_tokens, embed_dim = x.shape
        qkv = self.qkv(x)
        qkv = qkv.view(batch_size, num_tokens, 3, self.num_heads, self.head_dim)
        qkv = qkv.permute(2, 0, 3, 1, 4)
        queries, keys, values = qkv

        attn_mask = self.mask[:num_tokens, :num_tokens]
        use_dropout = 0.0 if not self.training else self.dropout
        context_vec = nn.functional.scaled_dot_product_attention(  # fault: AS205|AS201
            queries, keys, values, attn_mask=attn_mask, dropout_p=use_dropout, is_causal=False
        )
        context_vec = context_vec.transpose(1, 2).contiguous().view(batch_size, num_tokens, self.d_out)
        return self.proj(context_vec)


# also: AS203
with torch.random.fork_rng():
    torch.manual_seed(123)
    model = MHAPyTorchSDPAWithoutFlash(d_in=36, d_out=36, num_heads=4, context_length=20).eval()
    inputs = torch.randn(3, 11, 36)
expect = {"causal": True}
