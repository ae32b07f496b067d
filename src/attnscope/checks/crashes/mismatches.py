"""PyTorch's words for sizes that don't fit in an attention, and what they mean there."""

from __future__ import annotations

import re

from attnscope.checks.crashes.where import Raised
from attnscope.checks.crashes.words import Kind, Words, said

__all__ = ["MISMATCHES"]


def _features(match: re.Match[str], _raised: Raised) -> Words:
    rows, wanted, others, given = match.groups()
    if rows != others:
        return _heads_words(rows, others)
    return _width_words(wanted, given)


def _width_words(wanted: str, given: str) -> Words:
    return (
        "q-k-width",
        f"the two operands differ in width: {wanted} features meet {given}",
        "q and k need one head_dim: project both to the same number of features.",
    )


def _heads_words(first: str, second: str) -> Words:
    return (
        "head-count",
        (
            f"{first} heads (or samples) meet {second}: kv heads are neither as many as query "
            "heads nor expanded"
        ),
        (
            "Repeat each kv head in place: k.repeat_interleave(heads // kv_heads, dim=1), and v "
            "alike, or "
            "pass enable_gqa=True to F.scaled_dot_product_attention."
        ),
    )


_ADDING = re.compile(r"\+|masked_fill|where\(|-=|- ")
_PRODUCT = re.compile(r"matmul|bmm|@|einsum|scaled_dot_product|softmax\(.*@|attention\(")


def _sizes(match: re.Match[str], raised: Raised) -> Words:
    first, second, axis = match.groups()
    if _PRODUCT.search(raised.code) and "mask" not in raised.code:
        return _heads_words(first, second)
    if _ADDING.search(raised.code) or "mask" in raised.code or "bias" in raised.code:
        return (
            "mask-shape",
            (
                f"a mask or bias does not broadcast over the scores: {first} meets {second} at "
                f"axis {axis}"
            ),
            (
                "Bring it to (batch or 1, heads or 1, queries or 1, keys): a (batch, keys) "
                "padding mask is "
                "mask[:, None, None, :]."
            ),
        )
    return (
        "sizes",
        f"sizes {first} and {second} meet at axis {axis}",
        "Compare the axes of the tensors named here: (batch, heads, length, head_dim) each.",
    )


def _view(match: re.Match[str], _raised: Raised) -> Words:
    wanted, count = match.group(1), int(match.group(2))
    known = 1
    for size in re.findall(r"-?\d+", wanted):
        known *= max(int(size), 1)
    return (
        "split",
        (
            f"a view as [{wanted}] needs {known} entries (or a multiple) and there are {count}: "
            "heads times "
            "head_dim is not the width that was projected"
        ),
        (
            "The last axis must be heads · head_dim: split a fused projection by its own sizes "
            "(heads · head_dim, then twice kv_heads · head_dim) rather than in equal thirds."
        ),
    )


def _projected(match: re.Match[str], _raised: Raised) -> Words:
    name, wanted, given = match.groups()
    made, received = (sizes.split(",")[-1].strip() for sizes in (given, wanted))
    return (
        "projection-width",
        f"the projection of {name} was made for {made} features and is given {received}",
        (
            "kdim and vdim are the widths of key and value as they are handed over: leave them out "
            "where these have the query's width, or give the keys and values that they are for."
        ),
    )


_PROJECTION = said(
    "projection-width",
    "a projection takes {3} features and is given {2}",
    (
        "Make the layer with the width of what it receives: k and v of cross-attention have the "
        "context's width (kdim, vdim, context_dim), the output projection takes heads · value_dim."
    ),
)
_SPLIT = said(
    "split",
    "the parts of a fused projection don't add up: {0}",
    "Project to heads · head_dim + 2 · kv_heads · head_dim features and split by these sizes.",
)
_MASK = said(
    "mask-shape",
    "the mask has another shape than is read: {0}",
    (
        "attn_mask is (queries, keys) or (batch · heads, queries, keys), key_padding_mask (batch, "
        "keys)."
    ),
)
_MASK_TYPE = said(
    "mask-type",
    "the mask is of a type that can't be read as one: {0}",
    (
        "Make it boolean: mask.bool(), True = may attend for F.scaled_dot_product_attention, True "
        "= is hidden for masked_fill."
    ),
)
_BOTH = said(
    "mask-and-causal",
    "a mask and is_causal=True are given together, which the kernel refuses",
    "Join the causal mask with your own (mask & tril) and pass that alone.",
)
_TYPES = said(
    "types",
    "tensors of different types meet: {0}",
    "Cast q, k, v (and a float mask) to one type before the product.",
)
_EMBEDDING = said(
    "projection-width",
    "the layer was made for embed_dim {1} and is given {2} features",
    "Give embed_dim the width of the query, and kdim and vdim those of key and value.",
)
_APART = said(
    "sizes",
    "key and value, or query, don't fit each other: {0}",
    "key and value hold one row for each token of one sequence: give both the same one.",
)
_DIVIDE = said(
    "head-count",
    "the heads don't divide: {0}",
    "Choose heads that divide the width, and kv heads that divide the heads.",
)
_LETTERS = said(
    "q-k-width",
    "an einsum gives one letter two sizes: {0}",
    "A letter is one axis: compare the sizes of q, k and v that are named here.",
)
_JOINED = said(
    "joining",
    "tensors are joined whose other axes differ: {0}",
    "Join a cache along the axis of tokens (dim=-2 of (batch, heads, length, head_dim)).",
)

_NUMBER = r"\(?(\d+)\)?"
MISMATCHES: tuple[Kind, ...] = (
    (r"mat1 and mat2 shapes cannot be multiplied \((\d+)x(\d+) and (\d+)x(\d+)\)", _PROJECTION),
    (
        r"first two dimensions of batch2 tensor to be: \[(\d+), (\d+)\] but got: \[(\d+), (\d+)\]",
        _features,
    ),
    (
        (
            r"(2D|3D) attn_mask is.*|key_padding_mask\.shape.*|shape of (the )?attn_mask.*|"
            r"Expected key_padded_mask.*|expecting key_padding_mask.*|"
            r"expected `(attn_mask|key_padding_mask)` to be.*"
        ),
        _MASK,
    ),
    (
        (
            r"masked_fill_? only supports boolean masks.*|Expected attn_mask dtype.*|"
            r"mask must be.*bool.*|expected BoolTensor.*|only bool and floating.*"
        ),
        _MASK_TYPE,
    ),
    (r"attn_mask should not be set when is_causal|is_causal.*attn_mask", _BOTH),
    (
        (
            rf"size of tensor a {_NUMBER} must match the size of tensor b {_NUMBER} at "
            r"non-singleton dimension (\d+)"
        ),
        _sizes,
    ),
    (
        (
            rf"expanded size of the tensor {_NUMBER} must match the existing size {_NUMBER} at "
            r"non-singleton dimension (\d+)"
        ),
        _sizes,
    ),
    (r"shape '\[([-\d, ]+)\]' is invalid for input of size (\d+)", _view),
    (r"split_with_sizes expects.*|unflatten: .*", _SPLIT),
    (r"einsum\(\): .*", _LETTERS),
    (r"embedding dimension of (\d+), but got (\d+)", _EMBEDDING),
    (
        r"expecting (\w+) weights shape of \(([\d, ]+)\), but got torch\.Size\(\[([\d, ]+)\]\)",
        _projected,
    ),
    (r"key's sequence and batch dims .*|key shape .* does not match value shape.*", _APART),
    (
        (
            r"[Nn]umber of heads in key and value.*|"
            r"^(?=.*(?:[Hh]ead|[Ee]mbed|d_model|hidden|\bh\b)).*(?:must be|not) divisible by.*"
        ),
        _DIVIDE,
    ),
    (r"Sizes of tensors must match except in dimension.*", _JOINED),
    (
        (
            r"to have the same dtype.*|must have the same dtype.*|expected scalar type.*|"
            r"should be the same dtype.*|Expected query, key, and value.*"
        ),
        _TYPES,
    ),
)
