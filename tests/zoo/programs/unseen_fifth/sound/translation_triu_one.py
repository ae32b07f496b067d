"""English-German toy translator on nn.Transformer with a hand-made target mask."""
import math
import torch
from torch import nn, Tensor

PAD = 1


class PosEnc(nn.Module):
    def __init__(self, emb, maxlen=100):
        super().__init__()
        den = torch.exp(-torch.arange(0, emb, 2) * math.log(10000) / emb)
        pos = torch.arange(0, maxlen).reshape(maxlen, 1)
        pe = torch.zeros((maxlen, emb))
        pe[:, 0::2] = torch.sin(pos * den)
        pe[:, 1::2] = torch.cos(pos * den)
        self.register_buffer("pe", pe[None])

    def forward(self, t: Tensor):
        return t + self.pe[:, : t.size(1)]


def target_mask(sz, device):
    m = torch.full((sz, sz), float("-inf"), device=device)
    return torch.triu(m, diagonal=1)


class Seq2Seq(nn.Module):
    def __init__(self, src_vocab=90, tgt_vocab=110, emb=32, nhead=4):
        super().__init__()
        self.src_emb = nn.Embedding(src_vocab, emb)
        self.tgt_emb = nn.Embedding(tgt_vocab, emb)
        self.pe = PosEnc(emb)
        self.scale = math.sqrt(emb)
        self.transformer = nn.Transformer(emb, nhead, 1, 2, 64, 0.1, batch_first=True)
        self.generator = nn.Linear(emb, tgt_vocab)

    def forward(self, src, trg):
        tgt_mask = target_mask(trg.size(1), trg.device)
        src_pad = src == PAD
        out = self.transformer(self.pe(self.src_emb(src) * self.scale), self.pe(self.tgt_emb(trg) * self.scale),
                               tgt_mask=tgt_mask, src_key_padding_mask=src_pad, memory_key_padding_mask=src_pad)
        return self.generator(out)


torch.manual_seed(0)
model = Seq2Seq().eval()
g = torch.Generator().manual_seed(9)
_src = torch.randint(2, 90, (3, 12), generator=g)
_src[1, 9:] = PAD
_src[2, 6:] = PAD
inputs = {"src": _src, "trg": torch.randint(2, 110, (3, 8), generator=g)}
expect = {"causal": True, "padding": "src pad=1"}
