"""PyTorch's words for axes, types and results that are taken for others, and what they mean."""

from __future__ import annotations

import re

from attnscope.checks.crashes.mismatches import Kind, Words
from attnscope.checks.crashes.where import Raised

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


def _order(match: re.Match[str], _raised: Raised) -> Words:
    has, named = match.groups()
    return (
        "axis",
        f"an order of {named} axes is given to a tensor that has {has}",
        "Name each axis once: permute(0, 2, 1, 3) of (batch, heads, length, head_dim).",
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


def _product(match: re.Match[str], _raised: Raised) -> Words:
    return (
        "axis",
        f"bmm takes (batch, rows, columns) alone: {match.group(0)[:120]}",
        "Write @ or torch.matmul, which take heads as one more axis, or fold heads into samples.",
    )


def _normed(match: re.Match[str], _raised: Raised) -> Words:
    wanted, given = match.groups()
    return (
        "norm-width",
        f"a norm over {wanted} features is given a tensor of sizes [{given}]",
        "Merge the heads first (transpose(1, 2).flatten(2)), or make the norm for head_dim.",
    )


def _inverted(match: re.Match[str], _raised: Raised) -> Words:
    return (
        "mask-type",
        f"a mask of one type is handled as one of another: {match.group(0)[:160]}",
        (
            "Of a boolean mask the opposite is ~mask, of zeros and ones it is 1 - mask; "
            "mask.bool() makes the one of the other."
        ),
    )


def _asked(match: re.Match[str], _raised: Raised) -> Words:
    return (
        "mask-type",
        f"a whole tensor stands as a condition: {match.group(0)[:120]}",
        "Ask `if mask is not None`.",
    )


def _indexed(match: re.Match[str], _raised: Raised) -> Words:
    return (
        "mask-shape",
        f"scores are indexed by a mask of another shape: {match.group(0)[:160]}",
        "Write scores.masked_fill(mask[:, None, None, :], value), which broadcasts.",
    )


def _demanded(match: re.Match[str], _raised: Raised) -> Words:
    return (
        "mask-shape",
        f"the mask has another shape than is read: {match.group(0)[:160]}",
        (
            "attn_mask is (queries, keys) or (batch · heads, queries, keys), key_padding_mask "
            "(batch, keys)."
        ),
    )


def _triangle(match: re.Match[str], _raised: Raised) -> Words:
    return (
        "mask-shape",
        f"a triangle is made of one axis: {match.group(0)[:120]}",
        "A causal mask has queries and keys: torch.ones(length, length).tril().",
    )


def _grown(match: re.Match[str], raised: Raised) -> Words:
    kind = "mask-shape" if re.search(r"mask|bias", raised.code) else "sizes"
    return (
        kind,
        f"what is added in place has more than the scores: {match.group(0)[:160]}",
        "Bring it to (batch or 1, heads or 1, queries or 1, keys), or add it out of place.",
    )


def _tuple(_match: re.Match[str], _raised: Raised) -> Words:
    return (
        "tuple",
        "a tuple stands where a tensor is read: nn.MultiheadAttention returns (output, weights)",
        "Take the first: self.attention(x, x, x)[0], or output, weights = self.attention(x, x, x).",
    )


def _fraction(_match: re.Match[str], _raised: Raised) -> Words:
    return (
        "split",
        "a size is a float: width / heads is one, even where it divides",
        "Write head_dim = width // heads.",
    )


def _apart(match: re.Match[str], _raised: Raised) -> Words:
    return (
        "joining",
        f"tensors are joined that differ in their number of axes: {match.group(0)[:120]}",
        "Expand the smaller one first: token.expand(batch, heads, -1, -1).",
    )


def _pattern(match: re.Match[str], _raised: Raised) -> Words:
    return (
        "split",
        f"an einops pattern doesn't fit its tensor: {match.group(0)[:200]}",
        "Give heads (h=heads) as the sizes say: (h d) is heads · head_dim.",
    )


MISUSES: tuple[Kind, ...] = (
    (
        r"Dimension out of range \(expected to be in range of \[-\d+, (\d+)\], but got (-?\d+)\)",
        _axis,
    ),
    (r"input\.dim\(\) = (\d+) is not equal to len\(dims\) = (\d+)", _order),
    (r"(not enough|too many) values to unpack.*", _unpacked),
    (r"batch[12] must be a 3D tensor.*", _product),
    (r"normalized_shape=\[([\d, ]+)\], expected input .* of size ?\[([\d, ]+)\]", _normed),
    (
        (
            r"(Subtraction|Negation), the `-` operator.*bool tensor is not supported|"
            r"~ \(operator\.invert\) is only.*|where expected condition to be a boolean.*"
        ),
        _inverted,
    ),
    (r"Boolean value of Tensor with more than one value.*", _asked),
    (r"The shape of the mask \[.*does not match.*", _indexed),
    (
        (
            r"Expected key_padded_mask.*|expecting key_padding_mask.*|"
            r"expected `(attn_mask|key_padding_mask)` to be.*"
        ),
        _demanded,
    ),
    (r"tri[lu]: input tensor must have at least 2.*", _triangle),
    (r"output with shape .* doesn't match the broadcast shape.*", _grown),
    (
        r"'Tensor' and 'tuple'|'tuple' and 'Tensor'|must be Tensor, not tuple|'tuple' object has",
        _tuple,
    ),
    (
        (
            r"tuple of ints, ?but got float|'float' object cannot be interpreted|"
            r"found element of type float"
        ),
        _fraction,
    ),
    (r"Tensors must have same number of dimensions.*", _apart),
    (r"Error while processing rearrange.*", _pattern),
)
