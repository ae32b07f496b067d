"""Audio encoder block: two strided convolutions, then attention with an einsum over heads."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class AudioAttention(nn.Module):
    def __init__(self, n_state, n_head):
        super().__init__()
        self.n_head = n_head
        self.query = nn.Linear(n_state, n_state)
        self.key = nn.Linear(n_state, n_state, bias=False)
        self.value = nn.Linear(n_state, n_state)
        self.out = nn.Linear(n_state, n_state)

    def qkv_attention(self, q, k, v):
        n_batch, n_ctx, n_state = q.shape
        scale = (n_state // self.n_head) ** -0.25
        q = q.view(n_batch, n_ctx, self.n_head, -1) * scale
        k = k.view(n_batch, n_ctx, self.n_head, -1) * scale
        v = v.view(n_batch, n_ctx, self.n_head, -1)
        qk = torch.einsum("bqhd,bkhd->bhqk", q, k).float()
        w = F.softmax(qk, dim=-1).to(q.dtype)
        return torch.einsum("bhqk,bkhd->bqhd", w, v).flatten(2)

    def forward(self, x):
        return self.out(self.qkv_attention(self.query(x), self.key(x), self.value(x)))


class AudioEncoder(nn.Module):
    def __init__(self, n_mels=12, n_state=36, n_head=3, n_layer=2):
        super().__init__()
        self.conv1 = nn.Conv1d(n_mels, n_state, 3, padding=1)
        self.conv2 = nn.Conv1d(n_state, n_state, 3, stride=2, padding=1)
        self.register_buffer("positional_embedding", torch.randn(40, n_state) * 0.2)
        self.blocks = nn.ModuleList([AudioAttention(n_state, n_head) for _ in range(n_layer)])
        self.lns = nn.ModuleList([nn.LayerNorm(n_state) for _ in range(n_layer)])

    def forward(self, mel):
        x = F.gelu(self.conv2(F.gelu(self.conv1(mel)))).permute(0, 2, 1)
        x = x + self.positional_embedding[: x.shape[1]]
        for blk, ln in zip(self.blocks, self.lns):
            x = x + blk(ln(x))
        return x


with torch.random.fork_rng():
    torch.manual_seed(90)
    model = AudioEncoder().eval()
inputs = {"mel": torch.randn(2, 12, 42, generator=torch.Generator().manual_seed(90))}
