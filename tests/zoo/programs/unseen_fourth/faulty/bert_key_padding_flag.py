"""Review classifier around nn.MultiheadAttention, attention_mask as tokenizers make it."""
import torch
import torch.nn as nn


class ReviewNet(nn.Module):
    def __init__(self, vocab_size=120, dim=40, nhead=5, n_cls=3):
        super().__init__()
        self.word = nn.Embedding(vocab_size, dim, padding_idx=0)
        self.pos = nn.Embedding(64, dim)
        self.mha = nn.MultiheadAttention(dim, nhead, batch_first=True, dropout=0.1)
        self.norm = nn.LayerNorm(dim)
        self.fc = nn.Linear(dim, n_cls)

    def forward(self, input_ids, attention_mask):
        h = self.word(input_ids) + self.pos(torch.arange(input_ids.shape[1], device=input_ids.device))
        a, _ = self.mha(h, h, h, key_padding_mask=attention_mask.bool(), need_weights=False)  # fault: AS205
        h = self.norm(h + a)
        m = attention_mask.unsqueeze(-1).float()
        return self.fc((h * m).sum(1) / m.sum(1))


torch.manual_seed(0)
model = ReviewNet().eval()
_mask = torch.tensor([[1] * 9 + [0] * 2, [1] * 6 + [0] * 5])
inputs = {"input_ids": torch.randint(1, 120, (2, 11), generator=torch.Generator().manual_seed(3)) * _mask, "attention_mask": _mask}
# also: AS202 AS212
