"""Kaggle text classifier: tokenizer's attention_mask goes to nn.TransformerEncoder."""
import torch
import torch.nn as nn


class CFG:
    vocab = 120
    dim = 44
    heads = 4
    layers = 2
    max_len = 32
    n_targets = 6


class MeanPooling(nn.Module):
    def forward(self, last_hidden_state, attention_mask):
        m = attention_mask.unsqueeze(-1).expand(last_hidden_state.size()).float()
        return torch.sum(last_hidden_state * m, 1) / torch.clamp(m.sum(1), min=1e-9)


class CustomModel(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        self.emb = nn.Embedding(cfg.vocab, cfg.dim)
        self.pos = nn.Embedding(cfg.max_len, cfg.dim)
        self.encoder = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(cfg.dim, cfg.heads, 2 * cfg.dim, batch_first=True, norm_first=True), cfg.layers, enable_nested_tensor=False
        )
        self.pool = MeanPooling()
        self.fc = nn.Linear(cfg.dim, cfg.n_targets)

    def feature(self, inputs):
        ids, am = inputs["input_ids"], inputs["attention_mask"]
        x = self.emb(ids) + self.pos(torch.arange(ids.size(1), device=ids.device))
        x = self.encoder(x, src_key_padding_mask=am.bool())  # fault: AS205
        return self.pool(x, am)

    def forward(self, input_ids, attention_mask):
        return self.fc(self.feature({"input_ids": input_ids, "attention_mask": attention_mask}))


# also: AS202 AS212
with torch.random.fork_rng():
    torch.manual_seed(33)
    model = CustomModel(CFG()).eval()
_am = torch.ones(4, 15, dtype=torch.long)
for _r, _len in enumerate((9, 14, 12, 6)):
    _am[_r, _len:] = 0
inputs = {"input_ids": torch.randint(0, 120, (4, 15), generator=torch.Generator().manual_seed(33)), "attention_mask": _am}
