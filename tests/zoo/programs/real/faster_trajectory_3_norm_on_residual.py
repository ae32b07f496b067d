"""Trajectory GPT over states, actions and rewards, https://github.com/Howuhh/faster-trajectory-transformer/issues/3."""

import torch
import torch.nn as nn


class TransformerBlock(nn.Module):
    def __init__(self, seq_len, embedding_dim, num_heads, residual_dropout=0.1):
        super().__init__()
        self.norm1 = nn.LayerNorm(embedding_dim)
        self.norm2 = nn.LayerNorm(embedding_dim)
        self.drop = nn.Dropout(residual_dropout)
        self.attention = nn.MultiheadAttention(embedding_dim, num_heads, batch_first=True)
        self.mlp = nn.Sequential(
            nn.Linear(embedding_dim, 4 * embedding_dim),
            nn.GELU(),
            nn.Linear(4 * embedding_dim, embedding_dim),
        )
        self.register_buffer("causal_mask", ~torch.tril(torch.ones(seq_len, seq_len)).to(bool))

    def forward(self, x):
        causal_mask = self.causal_mask[: x.shape[1], : x.shape[1]]
        norm_x = self.norm1(x)
        attention_out = self.attention(norm_x, norm_x, norm_x, attn_mask=causal_mask, need_weights=False)[0]
        x = norm_x + self.drop(attention_out)  # fault: AS904
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    def __init__(self, vocab_size=60, transition_dim=6, transitions=4, embedding_dim=36, num_heads=4, num_layers=3):
        super().__init__()
        self.block_size = transition_dim * transitions
        self.tok_emb = nn.Embedding(vocab_size * transition_dim, embedding_dim)
        self.pos_emb = nn.Parameter(torch.randn(1, self.block_size, embedding_dim) * 0.1)
        self.blocks = nn.ModuleList(
            [TransformerBlock(self.block_size, embedding_dim, num_heads) for _ in range(num_layers)]
        )
        self.norm = nn.LayerNorm(embedding_dim)
        self.head = nn.Linear(embedding_dim, vocab_size, bias=False)
        self.vocab_size = vocab_size
        self.transition_dim = transition_dim

    def forward(self, tokens):
        length = tokens.shape[1]
        offsets = torch.arange(length) % self.transition_dim * self.vocab_size
        x = self.tok_emb(tokens + offsets) + self.pos_emb[:, :length]
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


with torch.random.fork_rng():
    torch.manual_seed(3)
    model = GPT().eval()
    inputs = {"tokens": torch.randint(0, 60, (2, 15))}
expect = {"causal": True}
