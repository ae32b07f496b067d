"""Dialogue model with key/value memory inside each layer object and learned positions."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class DialogueGPT(nn.Module):
    def __init__(self, vocab=64, d=36, heads=3, depth=2, ctx=48):
        super().__init__()
        self.heads = heads
        self.tok = nn.Embedding(vocab, d)
        self.pos = nn.Embedding(ctx, d)
        self.wi = nn.ModuleList(nn.Linear(d, 3 * d) for _ in range(depth))
        self.wo = nn.ModuleList(nn.Linear(d, d) for _ in range(depth))
        self.fc = nn.Linear(d, vocab)

    def forward(self, ids, past_key_values=None):
        b, t = ids.shape
        n_past = past_key_values[0][0].size(-2) if past_key_values else 0
        x = self.tok(ids) + self.pos(torch.arange(t))  # fault: AS601
        present = []
        allow = torch.ones(t, n_past + t, dtype=torch.bool).tril(n_past)
        for i, (wi, wo) in enumerate(zip(self.wi, self.wo)):
            q, k, v = wi(F.layer_norm(x, x.shape[-1:])).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
            if past_key_values:
                k = torch.cat((past_key_values[i][0], k), -2)
                v = torch.cat((past_key_values[i][1], v), -2)
            present.append((k, v))
            x = x + wo(F.scaled_dot_product_attention(q, k, v, attn_mask=allow).transpose(1, 2).flatten(2))
        return self.fc(x), present


torch.manual_seed(44)
model = DialogueGPT().eval()
inputs = {"ids": torch.randint(0, 64, (2, 11), generator=torch.Generator().manual_seed(44))}
expect = {"cache": "past_key_values", "causal": True}
