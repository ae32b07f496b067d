"""Attention from tokens to tokens: projections, heads, latents and norms around it."""

from __future__ import annotations

from attnscope.reference.projected.latent_streams import LatentForm, LatentWeights
from attnscope.reference.projected.latents import Latent, latent, latent_absorbed
from attnscope.reference.projected.latents_backward import LatentGradients, latent_backward
from attnscope.reference.projected.multihead import (
    Projected,
    ProjectedGradients,
    cross_attention,
    grouped_query,
    multi_head,
    multi_query,
    projected_backward,
)
from attnscope.reference.projected.norms import rms_norm, rms_norm_backward
from attnscope.reference.projected.projections import AttentionWeights

__all__ = [
    "AttentionWeights",
    "Latent",
    "LatentForm",
    "LatentGradients",
    "LatentWeights",
    "Projected",
    "ProjectedGradients",
    "cross_attention",
    "grouped_query",
    "latent",
    "latent_absorbed",
    "latent_backward",
    "multi_head",
    "multi_query",
    "projected_backward",
    "rms_norm",
    "rms_norm_backward",
]
