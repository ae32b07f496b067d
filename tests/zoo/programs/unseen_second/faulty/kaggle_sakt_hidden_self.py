"""SAKT for the knowledge tracing competition (public notebook, v12)."""

import numpy as np
import torch
import torch.nn as nn


def future_mask(seq_length):
    future_mask = np.triu(np.ones((seq_length, seq_length)), k=0).astype("bool")  # fault: AS212|AS203
    return torch.from_numpy(future_mask)  # fault: AS203|AS212


class FFN(nn.Module):
    def __init__(self, state_size=48):
        super().__init__()
        self.lr1 = nn.Linear(state_size, state_size)
        self.relu = nn.ReLU()
        self.lr2 = nn.Linear(state_size, state_size)
        self.dropout = nn.Dropout(0.2)

    def forward(self, x):
        return self.dropout(self.lr2(self.relu(self.lr1(x))))


class SAKTModel(nn.Module):
    def __init__(self, n_skill, max_seq=30, embed_dim=48):
        super().__init__()
        self.embedding = nn.Embedding(2 * n_skill + 1, embed_dim)
        self.pos_embedding = nn.Embedding(max_seq, embed_dim)
        self.e_embedding = nn.Embedding(n_skill + 1, embed_dim)
        self.multi_att = nn.MultiheadAttention(embed_dim=embed_dim, num_heads=6, dropout=0.2)
        self.layer_normal = nn.LayerNorm(embed_dim)
        self.ffn = FFN(embed_dim)
        self.ffn_norm = nn.LayerNorm(embed_dim)
        self.pred = nn.Linear(embed_dim, 1)

    def forward(self, x, question_ids):
        device = x.device
        x = self.embedding(x)
        pos_id = torch.arange(x.size(1)).unsqueeze(0).to(device)
        x = x + self.pos_embedding(pos_id)
        e = self.e_embedding(question_ids)

        x = x.permute(1, 0, 2)  # x: [bs, s_len, embed] => [s_len, bs, embed]
        e = e.permute(1, 0, 2)
        att_mask = future_mask(x.size(0)).to(device)
        att_output, att_weight = self.multi_att(e, x, x, attn_mask=att_mask)  # fault: AS203|AS212
        att_output = self.layer_normal(att_output + e)
        att_output = att_output.permute(1, 0, 2)

        out = self.ffn_norm(self.ffn(att_output) + att_output)
        return self.pred(out).squeeze(-1)


N_SKILL = 37
torch.manual_seed(42)
model = SAKTModel(N_SKILL)
model.eval()
inputs = {
    "x": torch.randint(1, 2 * N_SKILL, (6, 19)),
    "question_ids": torch.randint(1, N_SKILL, (6, 19)),
}
expect = {"causal": True}
# also: AS203 AS212 AS802
