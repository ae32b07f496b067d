"""Multi-agent transformer: encoder over agents without order, decoder over agents causal, observation memory."""
import torch
import torch.nn as nn


class SelfAttention(nn.Module):
    def __init__(self, n_embd, n_head, n_agent, masked=False):
        super().__init__()
        self.masked, self.n_head = masked, n_head
        self.key, self.query, self.value, self.proj = (nn.Linear(n_embd, n_embd) for _ in range(4))
        self.register_buffer("mask", torch.tril(torch.ones(n_agent + 1, n_agent + 1)).view(1, 1, n_agent + 1, n_agent + 1))

    def forward(self, key, value, query):
        B, L, D = query.size()
        k = self.key(key).view(B, L, self.n_head, D // self.n_head).transpose(1, 2)
        q = self.query(query).view(B, L, self.n_head, D // self.n_head).transpose(1, 2)
        v = self.value(value).view(B, L, self.n_head, D // self.n_head).transpose(1, 2)
        att = (q @ k.transpose(-2, -1)) * (1.0 / k.size(-1) ** 0.5)
        if self.masked:
            att = att.masked_fill(self.mask[:, :, :L, :L] == 0, float("-inf"))
        y = att.softmax(-1) @ v
        return self.proj(y.transpose(1, 2).contiguous().view(B, L, D))


class MAT(nn.Module):
    def __init__(self, obs=9, act=4, d=32, h=2, agents=5):
        super().__init__()
        self.obs, self.act = nn.Sequential(nn.LayerNorm(obs), nn.Linear(obs, d), nn.GELU()), nn.Linear(act + 1, d, bias=False)
        self.enc, self.dec1, self.dec2 = SelfAttention(d, h, agents), SelfAttention(d, h, agents, True), SelfAttention(d, h, agents, True)
        self.ln = nn.ModuleList([nn.LayerNorm(d) for _ in range(3)])
        self.head = nn.Linear(d, act)

    def forward(self, obs, shifted_action):
        rep = self.obs(obs)
        rep = self.ln[0](rep + self.enc(rep, rep, rep))
        x = self.act(shifted_action)
        x = self.ln[1](x + self.dec1(x, x, x))
        x = self.ln[2](rep + self.dec2(key=x, value=x, query=rep))
        return self.head(x)


with torch.random.fork_rng():
    torch.manual_seed(44)
    model = MAT().eval()
_g = torch.Generator().manual_seed(44)
inputs = (torch.randn(3, 5, 9, generator=_g), torch.nn.functional.one_hot(torch.randint(0, 5, (3, 5), generator=_g), 5).float())
