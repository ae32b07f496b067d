"""Phoneme encoder of a FastSpeech clone, sinusoidal table computed with NumPy-free torch code."""
import torch
import torch.nn as nn


def get_sinusoid_encoding_table(n_position, d_hid):
    position = torch.arange(n_position).float().unsqueeze(1)
    i = torch.arange(d_hid).float()
    angle = position / torch.pow(torch.tensor(10000.0), 2 * (i // 2) / d_hid)
    angle = angle.to(torch.bfloat16).float()  # fault: AS505
    table = torch.zeros(n_position, d_hid)
    table[:, 0::2] = torch.sin(angle[:, 0::2])
    table[:, 1::2] = torch.cos(angle[:, 1::2])
    return table  # fault: AS505


class FFTBlock(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.slf_attn = nn.MultiheadAttention(d, h, batch_first=True, dropout=0.1)
        self.norm = nn.LayerNorm(d)
        self.conv = nn.Conv1d(d, d, 3, padding=1)

    def forward(self, x):
        x = self.norm(x + self.slf_attn(x, x, x)[0])
        return x + torch.relu(self.conv(x.transpose(1, 2))).transpose(1, 2)


class PhonemeEncoder(nn.Module):
    def __init__(self, n_src_vocab=40, d_word_vec=32, max_seq_len=400):
        super().__init__()
        self.src_word_emb = nn.Embedding(n_src_vocab, d_word_vec)
        self.position_enc = nn.Parameter(get_sinusoid_encoding_table(max_seq_len + 1, d_word_vec).unsqueeze(0), requires_grad=False)
        self.layer_stack = nn.ModuleList([FFTBlock(d_word_vec, 2) for _ in range(2)])

    def forward(self, src_seq):
        out = self.src_word_emb(src_seq) + self.position_enc[:, : src_seq.shape[1]]  # fault: AS505
        for layer in self.layer_stack:
            out = layer(out)
        return out


with torch.random.fork_rng():
    torch.manual_seed(82)
    model = PhonemeEncoder().eval()
inputs = (torch.randint(0, 40, (2, 130), generator=torch.Generator().manual_seed(82)),)
