"""Encoder-decoder for toy German-English, own multi-head attention."""
import torch
import torch.nn as nn


class MHA(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.dim, self.heads, self.dh = dim, heads, dim // heads
        self.fc_q = nn.Linear(dim, dim)
        self.fc_k = nn.Linear(dim, dim)
        self.fc_v = nn.Linear(dim, dim)
        self.fc_o = nn.Linear(dim, dim)

    def forward(self, query, key, value, mask=None):
        bs = query.shape[0]
        Q = self.fc_q(query).view(bs, -1, self.heads, self.dh).permute(0, 2, 1, 3)
        K = self.fc_k(key).view(bs, -1, self.heads, self.dh).permute(0, 2, 1, 3)
        V = self.fc_v(value).view(bs, -1, self.heads, self.dh).permute(0, 2, 1, 3)
        energy = torch.matmul(Q, K.permute(0, 1, 3, 2)) / self.dh**0.5
        if mask is not None:
            energy = energy.masked_fill(mask == 0, -1e10)
        attention = torch.softmax(energy, dim=-1)
        x = torch.matmul(attention, V)
        x = x.contiguous().view(bs, -1, self.dim)  # fault: AS103
        return self.fc_o(x), attention


class Seq2Seq(nn.Module):
    SRC_PAD = TRG_PAD = 1

    def __init__(self, src_vocab=50, trg_vocab=44, hid=40, heads=5, max_len=40):
        super().__init__()
        self.src_tok, self.src_pos = nn.Embedding(src_vocab, hid), nn.Embedding(max_len, hid)
        self.trg_tok, self.trg_pos = nn.Embedding(trg_vocab, hid), nn.Embedding(max_len, hid)
        self.enc_attn, self.dec_attn, self.cross = MHA(hid, heads), MHA(hid, heads), MHA(hid, heads)
        self.ln = nn.ModuleList(nn.LayerNorm(hid) for _ in range(5))
        self.ff_e = nn.Sequential(nn.Linear(hid, 64), nn.ReLU(), nn.Linear(64, hid))
        self.ff_d = nn.Sequential(nn.Linear(hid, 64), nn.ReLU(), nn.Linear(64, hid))
        self.fc_out = nn.Linear(hid, trg_vocab)

    def make_src_mask(self, src):
        return (src != self.SRC_PAD).unsqueeze(1).unsqueeze(2)

    def make_trg_mask(self, trg):
        pad = (trg != self.TRG_PAD).unsqueeze(1).unsqueeze(2)
        n = trg.shape[1]
        return pad & torch.tril(torch.ones((n, n), device=trg.device)).bool()

    def forward(self, src, trg):
        sm, tm = self.make_src_mask(src), self.make_trg_mask(trg)
        e = self.src_tok(src) + self.src_pos(torch.arange(src.shape[1]))
        e = self.ln[0](e + self.enc_attn(e, e, e, sm)[0])
        e = self.ln[1](e + self.ff_e(e))
        d = self.trg_tok(trg) + self.trg_pos(torch.arange(trg.shape[1]))
        d = self.ln[2](d + self.dec_attn(d, d, d, tm)[0])
        ctx, attention = self.cross(d, e, e, sm)
        d = self.ln[3](d + ctx)
        d = self.ln[4](d + self.ff_d(d))
        return self.fc_out(d), attention


torch.manual_seed(2)
model = Seq2Seq().eval()
_g = torch.Generator().manual_seed(9)
inputs = {"src": torch.randint(2, 50, (2, 9), generator=_g), "trg": torch.randint(2, 44, (2, 7), generator=_g)}
# also: AS201
