"""Attention in less than quadratic time: by features, by random features, by mixed keys."""

from __future__ import annotations

from attnscope.reference.approximations.features import (
    FeatureGradients,
    FeatureState,
    feature_attention,
    feature_attention_backward,
    feature_attention_recurrent,
)
from attnscope.reference.approximations.linear import (
    LinearGradients,
    elu_plus_one,
    elu_plus_one_backward,
    linear_attention,
    linear_attention_backward,
    linear_attention_recurrent,
)
from attnscope.reference.approximations.linformer import (
    LinformerGradients,
    linformer_attention,
    linformer_attention_backward,
)
from attnscope.reference.approximations.random_features import (
    performer_attention,
    performer_attention_backward,
    positive_features,
    positive_features_backward,
    random_projections,
)

__all__ = [
    "FeatureGradients",
    "FeatureState",
    "LinearGradients",
    "LinformerGradients",
    "elu_plus_one",
    "elu_plus_one_backward",
    "feature_attention",
    "feature_attention_backward",
    "feature_attention_recurrent",
    "linear_attention",
    "linear_attention_backward",
    "linear_attention_recurrent",
    "linformer_attention",
    "linformer_attention_backward",
    "performer_attention",
    "performer_attention_backward",
    "positive_features",
    "positive_features_backward",
    "random_projections",
]
