"""Flax module translated to torch (einsum kept)."""
import torch
import torch.nn as nn


class DenseGeneral(nn.Module):
    def __init__(self, shape, std=None):
        super().__init__()
        self.kernel = nn.Parameter(torch.randn(shape) * (std or shape[0] ** -0.5))


class FlaxLikeAttention(nn.Module):
    """q_kernel: (features, heads, head_dim)"""

    def __init__(self, features=64, num_heads=2):
        super().__init__()
        hd = features // num_heads
        self.query, self.key, self.value = (DenseGeneral((features, num_heads, hd)) for _ in range(3))
        self.out = DenseGeneral((num_heads, hd, features), std=features**-0.5)

    def forward(self, inputs_q, inputs_kv=None):
        inputs_kv = inputs_q if inputs_kv is None else inputs_kv
        query = torch.einsum("blf,fhd->blhd", inputs_q, self.query.kernel)
        key = torch.einsum("blf,fhd->blhd", inputs_kv, self.key.kernel)
        value = torch.einsum("blf,fhd->blhd", inputs_kv, self.value.kernel)
        query = query / query.shape[-1] ** 0.5
        attn_weights = torch.einsum("bqhd,bkhd->bhqk", query, key)
        attn_weights = torch.softmax(attn_weights, dim=-1)
        x = torch.einsum("bhqk,bkhd->bqhd", attn_weights, value)
        return torch.einsum("blhd,hdf->blf", x, self.out.kernel)


torch.manual_seed(0)
model = FlaxLikeAttention().eval()
inputs = torch.randn(2, 9, 64, generator=torch.Generator().manual_seed(0))
