"""Attention to write with: a drop-in for `torch.nn.MultiheadAttention`, and what extends it.

Every module is ordinary PyTorch whose steps are the formula's own, so that each of them can be
looked at: with `attnscope.record(module)`, or afterwards by `module.last_call`. What goes beyond
`torch.nn.MultiheadAttention` is a part that is handed in (positions, masks, projections, a soft
cap, sinks, a cache), never a flag.
"""

from attnscope.nn import init
from attnscope.nn.blocks import DecoderLayer, EncoderLayer
from attnscope.nn.cache import KeyValueCache
from attnscope.nn.design import Design
from attnscope.nn.dropouts import AttentionDropouts
from attnscope.nn.droprates import Dropouts
from attnscope.nn.embeddings import (
    LearnedPositions,
    SinusoidalPositions,
    TokenEmbedding,
    sinusoidal_table,
)
from attnscope.nn.encoder_decoder import EncoderDecoder
from attnscope.nn.feedforward import FeedForward, FeedForwardNetwork, geglu, swiglu
from attnscope.nn.generation import Sampling
from attnscope.nn.headnorm import AcrossHeads, PerHead
from attnscope.nn.language_model import CausalLanguageModel, LanguageOutput, next_token_loss
from attnscope.nn.masks import Causal, Documents, Mask, Padding, Prefix, Window
from attnscope.nn.multihead import MultiheadAttention
from attnscope.nn.norms import ResidualLayer
from attnscope.nn.output import HeadwiseOutput
from attnscope.nn.positions import ALiBi, Positions, Rotary, ShawKeys, T5Bias
from attnscope.nn.projections import Fused, Separate, SharedKeyValue, SharedQueryKey
from attnscope.nn.scores import Sinks, Softcap, ZeroSink

__all__ = [
    "ALiBi",
    "AcrossHeads",
    "AttentionDropouts",
    "Causal",
    "CausalLanguageModel",
    "DecoderLayer",
    "Design",
    "Documents",
    "Dropouts",
    "EncoderDecoder",
    "EncoderLayer",
    "FeedForward",
    "FeedForwardNetwork",
    "Fused",
    "HeadwiseOutput",
    "KeyValueCache",
    "LanguageOutput",
    "LearnedPositions",
    "Mask",
    "MultiheadAttention",
    "Padding",
    "PerHead",
    "Positions",
    "Prefix",
    "ResidualLayer",
    "Rotary",
    "Sampling",
    "Separate",
    "SharedKeyValue",
    "SharedQueryKey",
    "ShawKeys",
    "Sinks",
    "SinusoidalPositions",
    "Softcap",
    "T5Bias",
    "TokenEmbedding",
    "Window",
    "ZeroSink",
    "geglu",
    "init",
    "next_token_loss",
    "sinusoidal_table",
    "swiglu",
]
