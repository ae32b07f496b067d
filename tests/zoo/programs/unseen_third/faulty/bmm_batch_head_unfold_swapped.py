"""Old-school bmm attention with heads concatenated on the batch axis."""
import torch
import torch.nn as nn


class MultiHead(nn.Module):
    def __init__(self, n_head=4, d_model=32, d_k=8):
        super().__init__()
        self.n_head, self.d_k = n_head, d_k
        self.w_qs, self.w_ks, self.w_vs = (nn.Linear(d_model, n_head * d_k) for _ in range(3))
        self.fc = nn.Linear(n_head * d_k, d_model)
        self.layer_norm = nn.LayerNorm(d_model)

    def forward(self, q, k, v):
        sz_b, len_q, _ = q.size()
        len_k = k.size(1)
        residual = q
        q = self.w_qs(q).view(sz_b, len_q, self.n_head, self.d_k)
        k = self.w_ks(k).view(sz_b, len_k, self.n_head, self.d_k)
        v = self.w_vs(v).view(sz_b, len_k, self.n_head, self.d_k)
        q = q.permute(2, 0, 1, 3).contiguous().view(-1, len_q, self.d_k)  # (n*b) x lq x dk
        k = k.permute(2, 0, 1, 3).contiguous().view(-1, len_k, self.d_k)
        v = v.permute(2, 0, 1, 3).contiguous().view(-1, len_k, self.d_k)
        attn = torch.softmax(torch.bmm(q, k.transpose(1, 2)) / self.d_k**0.5, dim=2)
        output = torch.bmm(attn, v)
        output = output.view(sz_b, self.n_head, len_q, self.d_k)  # fault: AS102|AS103
        output = output.permute(0, 2, 1, 3).contiguous().view(sz_b, len_q, -1)
        return self.layer_norm(self.fc(output) + residual), attn


class Enc(nn.Module):
    def __init__(self):
        super().__init__()
        self.slf_attn = MultiHead()
        self.pos_ffn = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 32))

    def forward(self, enc_input):
        out, attn = self.slf_attn(enc_input, enc_input, enc_input)
        return out + self.pos_ffn(out)


torch.manual_seed(0)
model = Enc().eval()
inputs = torch.randn(3, 7, 32, generator=torch.Generator().manual_seed(0))
