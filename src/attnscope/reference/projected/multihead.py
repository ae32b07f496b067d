"""Attention from tokens to tokens: projections, heads, attention, output projection.

`multi_head`, `multi_query`, `grouped_query` and `cross_attention` are one computation, named by
where keys and values come from and how many heads they have; `projected_backward` is the
backward of them all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Unpack

from attnscope.errors import InputError
from attnscope.reference.arrays import AsArray
from attnscope.reference.axes import Key, Query, Tokens, Value
from attnscope.reference.backward import AttentionGradients, attention_backward
from attnscope.reference.forward import Attention, attention
from attnscope.reference.given import array, count, gradient_of, instance
from attnscope.reference.heads import merge_heads, split_heads
from attnscope.reference.parts import ForwardOptions, Options, backward_options
from attnscope.reference.projected.projections import AttentionWeights, project, project_backward

__all__ = [
    "Projected",
    "ProjectedGradients",
    "cross_attention",
    "grouped_query",
    "multi_head",
    "multi_query",
    "projected_backward",
]

DOING = "computing projected attention"


@dataclass(frozen=True, slots=True, eq=False)
class Projected(AsArray):
    """Every step of one projected attention; as an array its output.

    q: (batch, heads, queries, head_dim). k, v: (batch, kv_heads, keys, head_dim or value_dim).
    attention: from scores to context. merged: the heads side by side (batch, queries,
    heads·value_dim). output: (batch, queries, width), the same as merged without a projection.
    """

    q: Query
    k: Key
    v: Value
    attention: Attention
    merged: Tokens
    output: Tokens

    main = "output"


@dataclass(frozen=True, slots=True, eq=False)
class ProjectedGradients:
    """The gradients of inputs and weights, and of the attention between.

    x: of the tokens that ask; in self-attention of the tokens altogether. source: of those that
    are asked, values: of those that give the values; None where they are not apart.
    """

    x: Tokens
    source: Tokens | None
    values: Tokens | None
    weights: AttentionWeights
    attention: AttentionGradients


def multi_head(
    x: Tokens, weights: AttentionWeights, heads: int, **options: Unpack[ForwardOptions]
) -> Projected:
    """Let tokens attend to each other with as many kv heads as heads.

    ``q, k, v = split(x W_qᵀ), split(x W_kᵀ), split(x W_vᵀ)``;
    ``output = merge(attention(q, k, v)) W_oᵀ``, each with its bias.

    Args:
        x: (batch, length, width), or (length, width).
        weights: see `AttentionWeights`.
        heads: the width of head h in q and k is rows h·head_dim to (h+1)·head_dim.
        options: those of `attention`.

    Raises:
        InputError: widths, weights and heads that don't fit.

    Source: Vaswani et al. 2017, 3.2.2. Elsewhere: ``torch.nn.MultiheadAttention``.

    >>> w = AttentionWeights(np.eye(4), np.eye(4), np.eye(4), np.eye(4))
    >>> np.asarray(multi_head(np.ones((3, 4)), w, heads=2))[0]
    array([1., 1., 1., 1.])
    """
    return _projected(x, x, x, weights, heads, heads, **options)


def multi_query(
    x: Tokens, weights: AttentionWeights, heads: int, **options: Unpack[ForwardOptions]
) -> Projected:
    """Let tokens attend to each other, all heads with the same keys and values.

    Arguments and errors are those of `multi_head`; weights.k is (head_dim, width).

    Source: Shazeer 2019, "Fast Transformer Decoding: One Write-Head is All You Need", 3.

    >>> w = AttentionWeights(np.eye(4), np.eye(2, 4), np.eye(2, 4), np.eye(4))
    >>> multi_query(np.ones((3, 4)), w, heads=2).k.shape
    (1, 3, 2)
    """
    return _projected(x, x, x, weights, heads, 1, **options)


def grouped_query(
    x: Tokens,
    weights: AttentionWeights,
    heads: int,
    kv_heads: int,
    **options: Unpack[ForwardOptions],
) -> Projected:
    """Let tokens attend to each other, heads / kv_heads neighbouring heads sharing keys and values.

    Arguments and errors are those of `multi_head`; weights.k is (kv_heads·head_dim, width).
    ``kv_map="tiled"`` shares them in turn.

    Source: Ainslie et al. 2023, "GQA", 2.2. Elsewhere: ``num_key_value_heads`` (Hugging Face).

    >>> w = AttentionWeights(np.eye(4), np.eye(2, 4), np.eye(2, 4), np.eye(4))
    >>> grouped_query(np.ones((3, 4)), w, heads=4, kv_heads=2).k.shape
    (2, 3, 1)
    """
    return _projected(x, x, x, weights, heads, kv_heads, **options)


def cross_attention(
    x: Tokens,
    source: Tokens,
    weights: AttentionWeights,
    heads: int,
    *,
    kv_heads: int | None = None,
    values: Tokens | None = None,
    **options: Unpack[ForwardOptions],
) -> Projected:
    """Let the tokens of one sequence ask those of another, which may have another width.

    The widths meet in the projections: text of 512 asks an image of 768 where weights.q is
    (heads·head_dim, 512) and weights.k (kv_heads·head_dim, 768). The output is as long as x.

    Args:
        x: the tokens that ask, (batch, queries, width).
        source: those that are asked, (batch, keys, width of the keys).
        weights: see `AttentionWeights`.
        heads: of the queries.
        kv_heads: of keys and values; None: as many as heads.
        values: those that give the values, as long as source; None: source.
        options: those of `attention`.

    Raises:
        InputError: widths, weights and heads that don't fit.

    Source: Vaswani et al. 2017, 3.2.3 (encoder-decoder attention). Elsewhere: ``kdim`` and
    ``vdim`` of ``torch.nn.MultiheadAttention``, ``encoder_hidden_states`` (Hugging Face).

    >>> text, image = np.ones((5, 512)), np.ones((7, 768))
    >>> w = AttentionWeights(np.eye(64, 512), np.eye(64, 768), np.eye(64, 768), np.eye(512, 64))
    >>> cross_attention(text, image, w, heads=8).output.shape
    (5, 512)
    """
    given = source if values is None else values
    kv_heads = heads if kv_heads is None else kv_heads
    return _projected(x, source, given, weights, heads, kv_heads, **options)


def projected_backward(
    gradient: Tokens,
    x: Tokens,
    weights: AttentionWeights,
    heads: int,
    *,
    kv_heads: int | None = None,
    source: Tokens | None = None,
    values: Tokens | None = None,
    **options: Unpack[Options],
) -> ProjectedGradients:
    """Return the gradients of inputs, weights and biases from one of the output.

    Per projection ``y = x Wᵀ + b``: ``∂x = ∂y W``, ``∂W = Σ_tokens ∂y xᵀ``, ``∂b = Σ_tokens ∂y``;
    between them `attention_backward`. A stream that enters several projections gets the sum.

    Args:
        gradient: of the output, (batch, queries, width).
        x: as in the forward; so are weights, heads and options (but the edits).
        weights: see x.
        heads: see x.
        kv_heads: None: as many as heads; 1 for `multi_query`.
        source: as in `cross_attention`; None: self-attention.
        values: as in `cross_attention`.
        options: see x.

    Raises:
        InputError: as the forward; or an edit, or a gradient that has not the shape of the output.
        TypeError: an option that `attention` has not.

    >>> w = AttentionWeights(np.eye(2), np.eye(2), np.eye(2))
    >>> projected_backward(np.ones((3, 2)), np.ones((3, 2)), w, heads=1).weights.v
    array([[3., 3.],
           [3., 3.]])
    """
    backward_options("projected_backward", options)
    asked = x if source is None else source
    giving = asked if values is None else values
    kv_heads = heads if kv_heads is None else kv_heads
    seen = _projected(x, asked, giving, weights, heads, kv_heads, **options)
    doing = "computing the gradients of projected attention"
    of_merged, of_output, of_output_bias = (
        gradient_of(doing, gradient, seen.output.shape),
        None,
        None,
    )
    if weights.output is not None:
        of_merged, of_output, of_output_bias = project_backward(
            of_merged, seen.merged, weights.output
        )
    inner = attention_backward(split_heads(of_merged, heads), seen.q, seen.k, seen.v, **options)
    of_x, of_q, of_q_bias = project_backward(merge_heads(inner.q), x, weights.q)
    of_asked, of_k, of_k_bias = project_backward(merge_heads(inner.k), asked, weights.k)
    of_giving, of_v, of_v_bias = project_backward(merge_heads(inner.v), giving, weights.v)
    if values is None:
        of_asked = of_asked + of_giving
    if source is None:
        of_x = of_x + of_asked
    return ProjectedGradients(
        of_x,
        None if source is None else of_asked,
        None if values is None else of_giving,
        AttentionWeights(
            of_q,
            of_k,
            of_v,
            of_output,
            None if weights.q_bias is None else of_q_bias,
            None if weights.k_bias is None else of_k_bias,
            None if weights.v_bias is None else of_v_bias,
            None if weights.output_bias is None else of_output_bias,
        ),
        inner,
    )


def _projected(
    x: Tokens,
    source: Tokens,
    values: Tokens,
    weights: AttentionWeights,
    heads: int,
    kv_heads: int,
    **options: Unpack[ForwardOptions],
) -> Projected:
    """Project the three streams, attend, and project what comes out."""
    _check_rows(weights, heads, kv_heads)
    q = split_heads(project(x, weights.q, weights.q_bias, "q"), heads)
    k = split_heads(project(source, weights.k, weights.k_bias, "k"), kv_heads)
    v = split_heads(project(values, weights.v, weights.v_bias, "v"), kv_heads)
    seen = attention(q, k, v, **options)
    merged = merge_heads(seen.context)
    output = merged
    if weights.output is not None:
        output = project(merged, weights.output, weights.output_bias, "the output")
    return Projected(q, k, v, seen, merged, output)


def _check_rows(weights: AttentionWeights, heads: int, kv_heads: int) -> None:
    """Check that the rows of q and k are as many heads of one width, and those of v any width."""
    instance(DOING, "weights", weights, AttentionWeights)
    heads, kv_heads = count(DOING, "heads", heads), count(DOING, "kv_heads", kv_heads)
    rows = {name: len(array(DOING, name, getattr(weights, name))) for name in "qkv"}
    ragged = rows["q"] % heads or rows["v"] % kv_heads
    if ragged or rows["q"] * kv_heads != rows["k"] * heads:
        raise InputError(
            DOING,
            f"weights of {rows['q']} rows for q, {rows['k']} for k and {rows['v']} for v, "
            f"for {heads} heads and {kv_heads} kv heads",
            "give q heads·head_dim rows, k kv_heads·head_dim and v kv_heads·value_dim",
        )
    if weights.output is None and weights.output_bias is not None:
        raise InputError(
            DOING, "an output_bias without output", "give the output projection, too, or neither"
        )
