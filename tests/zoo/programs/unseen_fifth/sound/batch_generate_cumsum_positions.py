"""GPT-2 style scorer used with a left-padding tokenizer."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class LeftPadGPT(nn.Module):
    def __init__(self, vocab=128, n_embd=48, n_head=4, n_layer=2, n_positions=64):
        super().__init__()
        self.wte = nn.Embedding(vocab, n_embd)
        self.wpe = nn.Embedding(n_positions, n_embd)
        self.n_head = n_head
        self.blocks = nn.ModuleList()
        for _ in range(n_layer):
            self.blocks.append(nn.ModuleDict(dict(ln=nn.LayerNorm(n_embd), c_attn=nn.Linear(n_embd, 3 * n_embd),
                                                  c_proj=nn.Linear(n_embd, n_embd))))
        self.ln_f = nn.LayerNorm(n_embd)

    def forward(self, input_ids, attention_mask=None):
        b, t = input_ids.shape
        position_ids = (attention_mask.cumsum(-1) - 1).clamp(min=0) if attention_mask is not None else torch.arange(t)[None]
        h = self.wte(input_ids) + self.wpe(position_ids)
        keep = torch.ones(t, t, dtype=torch.bool, device=h.device).tril()[None, None]
        if attention_mask is not None:
            keep = keep & attention_mask[:, None, None, :].bool()
            keep = keep | torch.eye(t, dtype=torch.bool, device=h.device)   # no empty rows
        for blk in self.blocks:
            q, k, v = blk["c_attn"](blk["ln"](h)).view(b, t, 3, self.n_head, -1).permute(2, 0, 3, 1, 4)
            a = F.scaled_dot_product_attention(q, k, v, attn_mask=keep)
            h = h + blk["c_proj"](a.transpose(1, 2).reshape(b, t, -1))
        return self.ln_f(h) @ self.wte.weight.T


torch.manual_seed(504)
model = LeftPadGPT().eval()
_am = torch.ones(3, 12, dtype=torch.long)
_am[0, :5] = 0
_am[2, :3] = 0
inputs = {"input_ids": torch.randint(1, 128, (3, 12), generator=torch.Generator().manual_seed(504)) * _am, "attention_mask": _am}
expect = {"causal": True, "padding": "attention_mask keep"}
