"""Time-first decoder with merged batch and heads, after the fairseq layout."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class MultiheadSelfAttention(nn.Module):
    def __init__(self, embed_dim, num_heads):
        super().__init__()
        self.embed_dim, self.num_heads = embed_dim, num_heads
        self.head_dim = embed_dim // num_heads
        self.scaling = self.head_dim**-0.5
        self.k_proj = nn.Linear(embed_dim, embed_dim)
        self.v_proj = nn.Linear(embed_dim, embed_dim)
        self.q_proj = nn.Linear(embed_dim, embed_dim)
        self.out_proj = nn.Linear(embed_dim, embed_dim)

    def forward(self, query, attn_mask=None):
        tgt_len, bsz, embed_dim = query.size()
        q = self.q_proj(query) * self.scaling
        k = self.k_proj(query)
        v = self.v_proj(query)
        q = q.contiguous().view(tgt_len, bsz * self.num_heads, self.head_dim).transpose(0, 1)
        k = k.contiguous().view(-1, bsz * self.num_heads, self.head_dim).transpose(0, 1)
        v = v.contiguous().view(-1, bsz * self.num_heads, self.head_dim).transpose(0, 1)
        attn_weights = torch.bmm(q, k.transpose(1, 2))
        if attn_mask is not None:
            attn_weights += attn_mask.unsqueeze(0)
        attn_probs = F.softmax(attn_weights, dim=-1)
        attn = torch.bmm(attn_probs, v)
        attn = attn.transpose(0, 1).contiguous().view(tgt_len, bsz, embed_dim)
        return self.out_proj(attn)


class DecoderLayer(nn.Module):
    def __init__(self, embed_dim, heads):
        super().__init__()
        self.self_attn = MultiheadSelfAttention(embed_dim, heads)
        self.self_attn_layer_norm = nn.LayerNorm(embed_dim)
        self.fc1 = nn.Linear(embed_dim, embed_dim * 2)
        self.fc2 = nn.Linear(embed_dim * 2, embed_dim)
        self.final_layer_norm = nn.LayerNorm(embed_dim)

    def forward(self, x, self_attn_mask=None):
        residual = x
        x = self.self_attn(x, attn_mask=self_attn_mask)
        x = self.self_attn_layer_norm(residual + x)
        residual = x
        x = self.fc2(F.relu(self.fc1(x)))
        return self.final_layer_norm(residual + x)


class TransformerDecoder(nn.Module):
    def __init__(self, vocab=43, embed_dim=30, heads=5, layers=3):
        super().__init__()
        self.embed_tokens = nn.Embedding(vocab, embed_dim)
        self.embed_positions = nn.Embedding(50, embed_dim)
        self.layers = nn.ModuleList(DecoderLayer(embed_dim, heads) for _ in range(layers))
        self.output_projection = nn.Linear(embed_dim, vocab, bias=False)

    def buffered_future_mask(self, tensor):
        dim = tensor.size(0)
        return torch.triu(torch.full((dim, dim), float("-inf")), 1)

    def forward(self, prev_output_tokens):
        positions = torch.arange(prev_output_tokens.size(1))
        x = self.embed_tokens(prev_output_tokens) + self.embed_positions(positions)
        x = x.transpose(0, 1)  # B x T x C -> T x B x C
        for i, layer in enumerate(self.layers):
            mask = self.buffered_future_mask(x) if i == 0 else None  # fault: AS201
            x = layer(x, self_attn_mask=mask)  # fault: AS201
        return self.output_projection(x.transpose(0, 1))


with torch.random.fork_rng():
    torch.manual_seed(21)
    model = TransformerDecoder().eval()

inputs = {
    "prev_output_tokens": torch.randint(2, 43, (4, 9), generator=torch.Generator().manual_seed(4))
}
expect = {"causal": True}
