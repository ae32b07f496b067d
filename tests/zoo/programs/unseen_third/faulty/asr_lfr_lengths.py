"""ASR encoder: low frame rate stacking (4 frames), then self-attention under a length mask, CTC head."""
import torch
import torch.nn as nn

SUB = 4


def make_non_pad_mask(lens, maxlen):
    return torch.arange(maxlen, device=lens.device)[None, :] < lens[:, None]


class EncLayer(nn.Module):
    def __init__(self, idim, nhead):
        super().__init__()
        self.nhead = nhead
        self.qkv = nn.Linear(idim, 3 * idim)
        self.o = nn.Linear(idim, idim)
        self.n1, self.n2 = nn.LayerNorm(idim), nn.LayerNorm(idim)
        self.ffn = nn.Sequential(nn.Linear(idim, 80), nn.ReLU(), nn.Linear(80, idim))

    def forward(self, x, mask):
        b, t, d = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, self.nhead, d // self.nhead).permute(2, 0, 3, 1, 4)
        att = q @ k.transpose(2, 3) * (d // self.nhead) ** -0.5
        att = att.masked_fill(~mask[:, None, None, :], torch.finfo(att.dtype).min).softmax(-1)
        x = x + self.o((att @ v).transpose(1, 2).flatten(2))
        return x + self.ffn(self.n2(x))


class CTCEncoder(nn.Module):
    def __init__(self, feats=10, idim=36, vocab=31):
        super().__init__()
        self.embed = nn.Linear(feats * SUB, idim)
        self.pos = nn.Parameter(torch.randn(1, 64, idim) * 0.1)
        self.layers = nn.ModuleList([EncLayer(idim, 3) for _ in range(2)])
        self.ctc_lo = nn.Linear(idim, vocab)

    def forward(self, speech, speech_lengths):
        b, t, f = speech.shape
        x = self.embed(speech.reshape(b, t // SUB, f * SUB))
        x = x + self.pos[:, : x.size(1)]
        olens = speech_lengths // 2  # fault: AS202
        mask = make_non_pad_mask(olens, x.size(1))
        for layer in self.layers:
            x = layer(x, mask)
        return self.ctc_lo(x), olens


# also: AS208
def model():
    with torch.random.fork_rng():
        torch.manual_seed(3)
        return CTCEncoder().eval()


def inputs():
    g = torch.Generator().manual_seed(8)
    return {"speech": torch.randn(3, 40, 10, generator=g), "speech_lengths": torch.tensor([40, 20, 28])}


expect = {"padding": "speech_lengths lengths"}
