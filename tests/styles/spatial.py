"""Attention over feature maps: 1x1 convolutions, pixels as tokens, channels first."""

# mypy: disable-error-code=no-untyped-call
# torch leaves Tensor.split and Tensor.unflatten without types.

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from .projections import noise, seeded
from .truth import Style, Truth, attend


class ImageGenerator(nn.Module):
    """The self-attention of an image generator: narrow q and k, keys-last bmm, gated residual."""

    def __init__(self) -> None:
        super().__init__()
        self.query_conv = nn.Conv2d(20, 4, 1)
        self.key_conv = nn.Conv2d(20, 4, 1)
        self.value_conv = nn.Conv2d(20, 20, 1)
        self.gamma = nn.Parameter(torch.tensor([0.7]))

    def forward(self, x: Tensor) -> Tensor:
        """Attend among the pixels of x ``(batch, channels, height, width)``."""
        B, C, width, height = x.size()
        proj_query = self.query_conv(x).view(B, -1, width * height).permute(0, 2, 1)
        proj_key = self.key_conv(x).view(B, -1, width * height)
        energy = torch.bmm(proj_query, proj_key)
        attention = energy.softmax(dim=-1)
        proj_value = self.value_conv(x).view(B, -1, width * height)
        out = torch.bmm(proj_value, attention.permute(0, 2, 1)).view(B, C, width, height)
        return self.gamma * out + x


class Autoencoder(nn.Module):
    """The attention block of an image autoencoder: one head over all channels."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(4, 20)
        self.q = nn.Conv2d(20, 20, kernel_size=1)
        self.k = nn.Conv2d(20, 20, kernel_size=1)
        self.v = nn.Conv2d(20, 20, kernel_size=1)
        self.proj_out = nn.Conv2d(20, 20, kernel_size=1)

    def forward(self, x: Tensor) -> Tensor:
        """Attend among the pixels of x."""
        h_ = self.norm(x)
        q, k, v = self.q(h_), self.k(h_), self.v(h_)
        b, c, h, w = q.shape
        q = q.reshape(b, c, h * w).permute(0, 2, 1)
        k = k.reshape(b, c, h * w)
        w_ = torch.bmm(q, k)
        w_ = w_ * (int(c) ** (-0.5))
        w_ = torch.nn.functional.softmax(w_, dim=2)
        v = v.reshape(b, c, h * w)
        w_ = w_.permute(0, 2, 1)
        h_ = torch.bmm(v, w_).reshape(b, c, h, w)
        return x + self.proj_out(h_)


class Diffusion(nn.Module):
    """Heads folded into the batch, channels before tokens, the fourth root on q and on k."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Conv1d(20, 72, 1)
        self.proj_out = nn.Conv1d(24, 20, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Attend among the pixels of x."""
        bs, channels, *spatial = x.shape
        qkv = self.qkv(x.reshape(bs, channels, -1))
        length = qkv.shape[-1]
        ch = qkv.shape[1] // (3 * 3)
        q, k, v = qkv.reshape(bs * 3, ch * 3, length).split(ch, dim=1)
        scale = 1 / math.sqrt(math.sqrt(ch))
        weight = torch.einsum("bct,bcs->bts", q * scale, k * scale)
        weight = torch.softmax(weight.float(), dim=-1).type(weight.dtype)
        a = torch.einsum("bts,bcs->bct", weight, v).reshape(bs, -1, length)
        return self.proj_out(a).reshape(bs, channels, *spatial)


class NonLocal(nn.Module):
    """Non-local block: keys and values are pooled pixels, fewer than the queries; no scale."""

    def __init__(self) -> None:
        super().__init__()
        self.theta = nn.Conv2d(20, 8, 1)
        self.phi = nn.Sequential(nn.Conv2d(20, 8, 1), nn.MaxPool2d((1, 2)))
        self.g = nn.Sequential(nn.Conv2d(20, 7, 1), nn.MaxPool2d((1, 2)))
        self.W = nn.Conv2d(7, 20, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Attend from the pixels of x to its pooled pixels."""
        g_x = self.g(x).flatten(2).permute(0, 2, 1)
        theta_x = self.theta(x).flatten(2).permute(0, 2, 1)
        phi_x = self.phi(x).flatten(2)
        f_div_C = torch.nn.functional.softmax(torch.matmul(theta_x, phi_x), dim=-1)
        y = torch.matmul(f_div_C, g_x).permute(0, 2, 1).contiguous()
        return self.W(y.view(x.size(0), 7, *x.size()[2:])) + x


class ConvHeads(nn.Module):
    """A fused 1x1 convolution, heads split off the channels, tokens last."""

    def __init__(self) -> None:
        super().__init__()
        self.to_qkv = nn.Conv2d(20, 72, 1, bias=False)
        self.to_out = nn.Conv2d(24, 20, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Attend among the pixels of x."""
        b, _, h, w = x.shape
        q, k, v = (t.reshape(b, 3, 8, h * w) for t in self.to_qkv(x).chunk(3, dim=1))
        q = q * 8**-0.5
        sim = torch.einsum("b h d i, b h d j -> b h i j", q, k)
        sim = sim - sim.amax(dim=-1, keepdim=True).detach()
        out = torch.einsum("b h i j, b h d j -> b h i d", sim.softmax(dim=-1), v)
        return self.to_out(out.transpose(2, 3).reshape(b, 24, h, w))


def pixels(features: Tensor) -> Tensor:
    """Channels-first maps as one head of pixel tokens."""
    return features.flatten(2).transpose(1, 2)[:, None]


def channels(context: Tensor) -> Tensor:
    """One head of pixel tokens as a channels-first map, 2 pixels high."""
    return context[:, 0].transpose(1, 2).unflatten(2, (2, 4))


def image() -> tuple[Tensor]:
    """A feature map of 2 by 4 pixels and 20 channels, batch 3."""
    return (noise(3, 20, 2, 4),)


def generator_truth(m: Any, inputs: Any) -> Truth:
    """Unscaled."""
    (x,) = inputs
    q, k, v = (pixels(conv(x)) for conv in (m.query_conv, m.key_conv, m.value_conv))
    return attend(q, k, v, 1.0)


def autoencoder_truth(m: Any, inputs: Any) -> Truth:
    """Scaled by all channels."""
    h = m.norm(inputs[0])
    return attend(pixels(m.q(h)), pixels(m.k(h)), pixels(m.v(h)), 20**-0.5)


def diffusion_truth(m: Any, inputs: Any) -> Truth:
    """Channels are (heads, qkv, head_dim)."""
    features = m.qkv(inputs[0].flatten(2)).unflatten(1, (3, 3, 8))
    return attend(*(features[:, :, i].transpose(2, 3) for i in range(3)))


def non_local_truth(m: Any, inputs: Any) -> Truth:
    """Pooled keys."""
    (x,) = inputs
    return attend(pixels(m.theta(x)), pixels(m.phi(x)), pixels(m.g(x)), 1.0)


def conv_heads_truth(m: Any, inputs: Any) -> Truth:
    """Channels are (qkv, heads, head_dim)."""
    features = m.to_qkv(inputs[0]).flatten(2).unflatten(1, (3, 3, 8))
    return attend(*(features[:, i].transpose(2, 3) for i in range(3)))


def heads_to_map(context: Tensor) -> Tensor:
    """(batch, heads, pixels, head_dim) as channels by pixels."""
    return context.transpose(2, 3).flatten(1, 2)


STYLES: tuple[Style, ...] = (
    Style(
        name="spatial-narrow-qk-values-first", build=seeded(ImageGenerator), inputs=image,
        batch=3, heads=1, kv_heads=1, queries=8, keys=8, head_dim=4, value_dim=20, scale=1.0,
        truth=generator_truth, output=lambda m, t: m.gamma * channels(t.read) + image()[0],
    ),
    Style(
        name="spatial-autoencoder", build=seeded(Autoencoder), inputs=image,
        batch=3, heads=1, kv_heads=1, queries=8, keys=8, head_dim=20, value_dim=20,
        scale=20**-0.5, truth=autoencoder_truth,
        output=lambda m, t: m.proj_out(channels(t.read)) + image()[0],
    ),
    Style(
        name="spatial-diffusion-fourth-root", build=seeded(Diffusion), inputs=image,
        batch=3, queries=8, keys=8, truth=diffusion_truth,
        output=lambda m, t: m.proj_out(heads_to_map(t.read)).unflatten(2, (2, 4)),
    ),
    Style(
        name="spatial-non-local-pooled-keys", build=seeded(NonLocal), inputs=image,
        batch=3, heads=1, kv_heads=1, queries=8, keys=4, value_dim=7, scale=1.0,
        truth=non_local_truth, output=lambda m, t: m.W(channels(t.read)) + image()[0],
    ),
    Style(
        name="spatial-conv-heads", build=seeded(ConvHeads), inputs=image,
        batch=3, queries=8, keys=8, truth=conv_heads_truth,
        output=lambda m, t: m.to_out(heads_to_map(t.read).unflatten(2, (2, 4))),
    ),
)  # fmt: skip
