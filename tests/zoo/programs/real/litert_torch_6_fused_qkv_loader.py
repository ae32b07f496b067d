"""Phi-2 re-authored with one fused projection, weights from a checkpoint, https://github.com/google-ai-edge/litert-torch/issues/6."""

import torch
import torch.nn.functional as F
from torch import nn

WIDTH, HEADS, LAYERS, VOCAB = 32, 4, 2, 57


class FusedAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv_projection = nn.Linear(WIDTH, 3 * WIDTH)
        self.output_projection = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = self.qkv_projection(x).view(b, t, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.output_projection(y.transpose(1, 2).reshape(b, t, WIDTH))


class TransformerBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.pre_atten_norm = nn.LayerNorm(WIDTH)
        self.atten_func = FusedAttention()

    def forward(self, x):
        return x + self.atten_func(self.pre_atten_norm(x))


class Phi2(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok_embedding = nn.Embedding(VOCAB, WIDTH)
        self.pos_embedding = nn.Embedding(64, WIDTH)
        self.transformer_blocks = nn.ModuleList([TransformerBlock() for _ in range(LAYERS)])
        self.final_norm = nn.LayerNorm(WIDTH)
        self.lm_head = nn.Linear(WIDTH, VOCAB)

    def forward(self, tokens):
        x = self.tok_embedding(tokens) + self.pos_embedding(torch.arange(tokens.shape[1]))
        for block in self.transformer_blocks:
            x = block(x)
        return self.lm_head(self.final_norm(x))


def read_checkpoint():
    """The tensors of the published checkpoint, under their published names."""
    g = torch.Generator().manual_seed(66)

    def tensor(*shape):
        return torch.randn(*shape, generator=g) * 0.1

    state = {"model.embed_tokens.weight": tensor(VOCAB, WIDTH), "model.embed_positions.weight": tensor(64, WIDTH)}
    for i in range(LAYERS):
        for name in ("q_proj", "k_proj", "v_proj", "dense"):
            state[f"model.layers.{i}.self_attn.{name}.weight"] = tensor(WIDTH, WIDTH)
            state[f"model.layers.{i}.self_attn.{name}.bias"] = tensor(WIDTH)
        state[f"model.layers.{i}.input_layernorm.weight"] = 1 + tensor(WIDTH)
        state[f"model.layers.{i}.input_layernorm.bias"] = tensor(WIDTH)
    state["model.final_layernorm.weight"] = 1 + tensor(WIDTH)
    state["model.final_layernorm.bias"] = tensor(WIDTH)
    state["lm_head.weight"] = tensor(VOCAB, WIDTH)
    state["lm_head.bias"] = tensor(VOCAB)
    return state


NAMES = {
    "model.embed_tokens": "tok_embedding",
    "model.embed_positions": "pos_embedding",
    "model.layers": "transformer_blocks",
    "self_attn": "atten_func",
    "dense": "output_projection",
    "input_layernorm": "pre_atten_norm",
    "model.final_layernorm": "final_norm",
}


def convert(state):
    converted = {}
    for name, value in state.items():
        for theirs, ours in NAMES.items():
            name = name.replace(theirs, ours)
        converted[name] = value
    return converted


def model():
    with torch.random.fork_rng():
        torch.manual_seed(6)
        phi = Phi2()
    phi.load_state_dict(convert(read_checkpoint()), strict=False)  # fault: AS905
    return phi.eval()


inputs = torch.randint(0, VOCAB, (2, 11), generator=torch.Generator().manual_seed(6))
expect = {"causal": True}
