"""PyTorch's words for axes, types and results that are taken for others, and what they mean."""

from __future__ import annotations

import re

from attnscope.checks.crashes.where import Raised
from attnscope.checks.crashes.words import Kind, Words, said

__all__ = ["MISUSES"]


def _axis(match: re.Match[str], _raised: Raised) -> Words:
    last, asked = int(match.group(1)), match.group(2)
    return (
        "axis",
        f"axis {asked} is asked for, of a tensor of {last + 1} axes, 0 to {last}",
        (
            "Count the axes of what stands here: without heads it is (batch, queries, keys), with "
            "them (batch, heads, queries, keys). dim=-1 is the keys in both."
        ),
    )


def _unpacked(match: re.Match[str], raised: Raised) -> Words:
    parts = "axes" if re.search(r"shape|size\(", raised.code) else "parts"
    return (
        "axis",
        f"the names on the left are not as many as the {parts}: {match.group(0)}",
        (
            "Compare both: (batch, length, width) has three axes, and a fused projection of q, k "
            "and v is split into three parts of heads · head_dim each (chunk(3, dim=-1))."
        ),
    )


def _grown(match: re.Match[str], raised: Raised) -> Words:
    kind = "mask-shape" if re.search(r"mask|bias", raised.code) else "sizes"
    return (
        kind,
        f"what is added in place has more than the scores: {match.group(0)[:160]}",
        "Bring it to (batch or 1, heads or 1, queries or 1, keys), or add it out of place.",
    )


_ORDER = said(
    "axis",
    "an order of {2} axes is given to a tensor that has {1}",
    "Name each axis once: permute(0, 2, 1, 3) of (batch, heads, length, head_dim).",
)
_PRODUCT = said(
    "axis",
    "bmm takes (batch, rows, columns) alone: {0}",
    "Write @ or torch.matmul, which take heads as one more axis, or fold heads into samples.",
)
_NORMED = said(
    "norm-width",
    "a norm over {1} features is given a tensor of sizes [{2}]",
    "Merge the heads first (transpose(1, 2).flatten(2)), or make the norm for head_dim.",
)
_INVERTED = said(
    "mask-type",
    "a mask of one type is handled as one of another: {0}",
    (
        "Of a boolean mask the opposite is ~mask, of zeros and ones it is 1 - mask; mask.bool() "
        "makes the one of the other."
    ),
)
_ASKED = said(
    "mask-type",
    "a whole tensor stands as a condition: {0}",
    "Ask `if mask is not None`.",
)
_INDEXED = said(
    "mask-shape",
    "scores are indexed by a mask of another shape: {0}",
    "Write scores.masked_fill(mask[:, None, None, :], value), which broadcasts.",
)
_TRIANGLE = said(
    "mask-shape",
    "a triangle is made of one axis: {0}",
    "A causal mask has queries and keys: torch.ones(length, length).tril().",
)
_TUPLE = said(
    "tuple",
    "a tuple stands where a tensor is read: nn.MultiheadAttention returns (output, weights)",
    "Take the first: self.attention(x, x, x)[0], or output, weights = self.attention(x, x, x).",
)
_FRACTION = said(
    "split",
    "a size is a float: width / heads is one, even where it divides",
    "Write head_dim = width // heads.",
)
_APART = said(
    "joining",
    "tensors are joined that differ in their number of axes: {0}",
    "Expand the smaller one first: token.expand(batch, heads, -1, -1).",
)
_PATTERN = said(
    "split",
    "an einops pattern doesn't fit its tensor: {0}",
    "Give heads (h=heads) as the sizes say: (h d) is heads · head_dim.",
)

MISUSES: tuple[Kind, ...] = (
    (
        r"Dimension out of range \(expected to be in range of \[-\d+, (\d+)\], but got (-?\d+)\)",
        _axis,
    ),
    (r"input\.dim\(\) = (\d+) is not equal to len\(dims\) = (\d+)", _ORDER),
    (r"(not enough|too many) values to unpack.*", _unpacked),
    (r"batch[12] must be a 3D tensor.*", _PRODUCT),
    (r"normalized_shape=\[([\d, ]+)\], expected input .* of size ?\[([\d, ]+)\]", _NORMED),
    (
        (
            r"(Subtraction|Negation), the `-` operator.*bool tensor is not supported|"
            r"~ \(operator\.invert\) is only.*|where expected condition to be a boolean.*"
        ),
        _INVERTED,
    ),
    (r"Boolean value of Tensor with more than one value.*", _ASKED),
    (r"The shape of the mask \[.*does not match.*", _INDEXED),
    (r"tri[lu]: input tensor must have at least 2.*", _TRIANGLE),
    (r"output with shape .* doesn't match the broadcast shape.*", _grown),
    (
        r"'Tensor' and 'tuple'|'tuple' and 'Tensor'|must be Tensor, not tuple|'tuple' object has",
        _TUPLE,
    ),
    (
        (
            r"tuple of ints, ?but got float|'float' object cannot be interpreted|"
            r"found element of type float"
        ),
        _FRACTION,
    ),
    (r"Tensors must have same number of dimensions.*", _APART),
    (r"Error while processing rearrange.*", _PATTERN),
)
