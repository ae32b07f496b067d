"""Whatever is given to a public function of the reference: a result, or an error in three parts.

Each function has one call that works; then each of its arguments is replaced by things that it
can't be, one at a time. What must not be taken at all is named in the tests of each module.
"""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

import numpy as np
import pytest

from attnscope import reference
from attnscope.errors import InputError
from attnscope.reference import AttentionWeights, LatentForm, LatentWeights, SlidingWindow

RNG = np.random.default_rng(0)
X = RNG.normal(size=(3, 4))
ROW, MASK = RNG.random((3, 3)), np.tri(3, dtype=bool)
HEADS = RNG.normal(size=(2, 3, 4))
POSITIVE = RNG.random((3, 4)) + 0.1
WEIGHTS = AttentionWeights(np.eye(4), np.eye(4), np.eye(4), np.eye(4))
LATENT = LatentWeights(np.eye(8), np.eye(5, 8), np.ones(3), np.eye(8, 3), np.eye(8, 4))
TOKENS = RNG.normal(size=(3, 8))
QKV = {"q": X, "k": X, "v": X}
PARTS = {
    "scale": 0.5,
    "mask": MASK,
    "causal": True,
    "bias": ROW,
    "softcap": 5.0,
    "sinks": np.zeros((1, 1)),
    "normaliser": "softmax",
    "keep": MASK,
    "dropout": 0.1,
    "empty_row": "nan",
}
FEATURES = {"query_features": POSITIVE, "key_features": POSITIVE, "v": X}
SHOWN = {"causal": True, "keep": np.ones(3, bool), "eps": 0.1}
MIXING = {"key_mixing": np.ones((2, 3)), "value_mixing": np.ones((2, 3)), "scale": 0.5}
DRAWN = {"projections": RNG.normal(size=(5, 4)), "scale": 0.5, "causal": True, "keep": None}
PATTERN = {"pattern": SlidingWindow(1), "scale": 0.5, "alignment": None}
PAIRS = {"query_positions": [0, 1, 2], "key_positions": [0, 1, 2]}
TURN = {"positions": [0, 1, 2], "pairing": "half", "base": 100.0, "share": 1.0, "length": 3}
SHAW = {
    "table": RNG.normal(size=(3, 4)),
    "rows": np.clip(np.subtract.outer([0, 1, 2], [0, 1, 2]), -1, 1) + 1,
}
ROWS = {"scores": ROW, "axis": -1}
OF_ROWS = {**ROWS, "weights": ROW, "gradient": ROW}

CALLS: dict[str, dict[str, Any]] = {
    "attention": {**QKV, **PARTS},
    "attention_backward": {"gradient": X, **QKV, **PARTS},
    "split_heads": {"x": X, "heads": 2},
    "merge_heads": {"x": HEADS},
    "kv_head_map": {"heads": 4, "kv_heads": 2, "order": "tiled"},
    "expand_kv": {"x": HEADS, "heads": 4, "order": [0, 0, 1, 1]},
    "sum_groups": {"gradient": HEADS, "kv_heads": 1, "order": "repeated"},
    "multi_head": {"x": X, "weights": WEIGHTS, "heads": 2, "causal": True},
    "multi_query": {"x": X, "weights": WEIGHTS, "heads": 1, "causal": True},
    "grouped_query": {"x": X, "weights": WEIGHTS, "heads": 2, "kv_heads": 2},
    "cross_attention": {
        "x": X,
        "source": X,
        "weights": WEIGHTS,
        "heads": 2,
        "kv_heads": 2,
        "values": X,
    },
    "projected_backward": {
        "gradient": X,
        "x": X,
        "weights": WEIGHTS,
        "heads": 2,
        "kv_heads": 2,
        "source": X,
        "values": X,
    },
    "latent": {
        "x": TOKENS[:, :8],
        "weights": LATENT,
        "form": LatentForm(2),
        "positions": [0, 1, 2],
    },
    "latent_absorbed": {
        "x": TOKENS,
        "weights": LATENT,
        "form": LatentForm(2),
        "positions": [0, 1, 2],
    },
    "latent_backward": {
        "gradient": TOKENS,
        "x": TOKENS,
        "weights": LATENT,
        "form": LatentForm(2),
        "positions": [0, 1, 2],
    },
    "rms_norm": {"x": X, "gain": np.ones(4), "eps": 1e-6},
    "rms_norm_backward": {"gradient": X, "x": X, "gain": np.ones(4), "eps": 1e-6},
    "causal": {"queries": 3, "keys": 3, "alignment": "top-left"},
    "band": {"queries": 3, "keys": 3, "left": 1, "right": 1, "alignment": "top-left"},
    "window": {"size": 2, "queries": 3, "keys": 3, "sides": "past", "alignment": None},
    "prefix": {"length": 1, "queries": 3, "keys": 3, "alignment": None},
    "padding": {"lengths": [1, 2], "keys": 3, "side": "left"},
    "padding_from_ids": {"ids": [[1, 0]], "pad": 0},
    "documents": {"query_ids": [[0, 1]], "key_ids": [[0, 1]]},
    "document_ids": {"lengths": [1, 2]},
    "convention_of": {"mask": MASK},
    "from_keep": {"mask": MASK},
    "from_drop": {"mask": MASK},
    "from_additive": {"mask": np.zeros(3)},
    "from_tokenizer": {"mask": [[1, 0]]},
    "from_multihead": {"attn_mask": MASK, "key_padding_mask": [[False] * 3], "heads": 2},
    "split_additive": {"mask": np.zeros(3)},
    "to_keep": {"mask": MASK},
    "to_drop": {"mask": MASK},
    "to_additive": {"mask": MASK, "fill": "float16"},
    "to_tokenizer": {"mask": MASK[None, None, :1]},
    "to_attn_mask": {"mask": MASK, "batch": 2, "heads": 2},
    "to_key_padding_mask": {"mask": MASK[None, None, :1]},
    "softmax": ROWS,
    "softmax_off_by_one": ROWS,
    "logsumexp": ROWS,
    "sparsemax": ROWS,
    "entmax": ROWS,
    "softmax_backward": OF_ROWS,
    "sparsemax_backward": OF_ROWS,
    "entmax_backward": OF_ROWS,
    "alibi_slopes": {"heads": 3, "steepness": 8.0},
    "alibi_bias": {"slopes": [0.5], **PAIRS, "form": "causal"},
    "alibi_bias_backward": {"gradient": ROW[None], **PAIRS, "form": "causal"},
    "learned_positions": {"table": X, "positions": [0, 1], "offset": 1},
    "learned_positions_backward": {"gradient": X, "positions": [0, 1, 2], "rows": 4, "offset": 1},
    "rotary": {"x": X, **TURN, "scaling": None},
    "rotary_backward": {"gradient": X, **TURN, "scaling": None},
    "rotary_table": {"positions": [0, 1], "width": 4, "base": 100.0, "scaling": None, "length": 2},
    "rotary_frequencies": {"width": 4, "base": 100.0, "scaling": None, "length": 2},
    "pairing_order": {"head_dim": 4, "to": "half", "share": 1.0},
    "convert_pairing": {"weight": X.T, "head_dim": 4, "to": "half", "share": 1.0, "axis": 0},
    "shaw_rows": {**PAIRS, "before": 1, "after": 1},
    "shaw_scores": {"q": X, **SHAW},
    "shaw_scores_backward": {"gradient": ROW, "q": X, **SHAW},
    "shaw_context": {"weights": ROW, **SHAW},
    "shaw_context_backward": {"gradient": X, "weights": ROW, **SHAW},
    "sinusoidal": {
        "length": 3,
        "width": 4,
        "base": 100.0,
        "layout": "interleaved",
        "spacing": "open",
    },
    "sinusoidal_at": {
        "positions": [0, 1],
        "width": 4,
        "base": 100.0,
        "layout": "interleaved",
        "spacing": "open",
    },
    "t5_buckets": {"distance": [0, 1], "bidirectional": True, "buckets": 8, "max_distance": 16},
    "t5_bias": {"table": np.ones((8, 2)), **PAIRS, "bidirectional": True, "max_distance": 16},
    "t5_bias_backward": {
        "gradient": np.ones((2, 3, 3)),
        **PAIRS,
        "buckets": 8,
        "bidirectional": True,
        "max_distance": 16,
    },
    "elu_plus_one": {"x": X},
    "elu_plus_one_backward": {"gradient": X, "x": X},
    "feature_attention": {**FEATURES, **SHOWN},
    "feature_attention_backward": {"gradient": X, **FEATURES, **SHOWN},
    "feature_attention_recurrent": {**FEATURES, "state": None, "eps": 0.1},
    "linear_attention": {**QKV, **SHOWN},
    "linear_attention_backward": {"gradient": X, **QKV, **SHOWN},
    "linear_attention_recurrent": {**QKV, "state": None, "eps": 0.1},
    "linformer_attention": {**QKV, **MIXING, "keep": np.ones(3, bool)},
    "linformer_attention_backward": {"gradient": X, **QKV, **MIXING, "keep": np.ones(3, bool)},
    "performer_attention": {**QKV, **DRAWN},
    "performer_attention_backward": {"gradient": X, **QKV, **DRAWN},
    "positive_features": {"x": X, "projections": DRAWN["projections"]},
    "positive_features_backward": {
        "gradient": np.ones((3, 5)),
        "x": X,
        "projections": DRAWN["projections"],
    },
    "random_projections": {"features": 3, "head_dim": 2, "seed": 0},
    "pattern_attention": {**QKV, **PATTERN},
    "pattern_attention_backward": {"gradient": X, **QKV, **PATTERN},
    "pairs_of": {"pattern": SlidingWindow(1), "queries": 3, "keys": 3, "alignment": None},
    "SlidingWindow": {"before": 1, "after": 1, "dilation": 1},
    "Strided": {"stride": 2, "part": "both"},
    "Fixed": {"stride": 2, "summary": 1},
    "BlockSparse": {"layout": [[True]], "block": 2, "causal": False},
    "LocalGlobal": {"before": 1, "after": 1, "globals_": (0,), "causal": False},
    "LinearScaling": {"factor": 2.0},
    "NTKScaling": {"factor": 2.0},
    "DynamicNTKScaling": {"factor": 2.0, "trained_length": 8},
    "ProportionalScaling": {"share": 0.5, "factor": 2.0},
    "YarnScaling": {
        "factor": 2.0,
        "trained_length": 8,
        "beta_fast": 32.0,
        "beta_slow": 1.0,
        "attention_factor": 1.0,
        "mscale": 1.0,
        "mscale_all": 1.0,
        "truncate": True,
    },
    "Llama3Scaling": {"factor": 2.0, "trained_length": 8, "low": 1.0, "high": 4.0},
    "LongRopeScaling": {"short": (1.0,), "long": (2.0,), "trained_length": 8, "factor": 2.0},
    "LatentForm": {"heads": 2},
}
WRONG: list[Any] = [
    "text",
    object(),
    -1,
    0,
    2.5,
    np.nan,
    True,
    [[1.0], [1.0, 2.0]],
    np.ones((7, 5, 3)),
    [-3],
    np.ones((2, 2), bool),
]


def test_every_public_function_has_a_call() -> None:
    public = {name for name in reference.__all__ if inspect.isfunction(getattr(reference, name))}
    made = {
        name
        for name in reference.__all__
        if dataclasses.is_dataclass(getattr(reference, name))
        and hasattr(getattr(reference, name), "__post_init__")
    }
    assert public | made == CALLS.keys()


@pytest.mark.parametrize("name", CALLS)
def test_the_call_itself_works(name: str) -> None:
    assert getattr(reference, name)(**CALLS[name]) is not None


@pytest.mark.parametrize("name", CALLS)
def test_a_wrong_argument_is_told_in_three_parts(name: str) -> None:
    function, refused, bare = getattr(reference, name), 0, []
    for argument in CALLS[name]:
        for wrong in WRONG:
            try:
                function(**{**CALLS[name], argument: wrong})
            except InputError:
                refused += 1
            except Exception as error:  # noqa: BLE001 - whatever it is, it is to be listed
                bare.append(f"{argument}: {type(wrong).__name__}: {type(error).__name__}: {error}")
    assert not bare, "\n".join(bare)
    assert refused >= 2 * len(CALLS[name]) - 2
