"""Masks as boolean arrays, True = may attend, and what other libraries mean by a mask.

They are plain arrays: ``causal(5, 5) & padding(lengths, 5)`` hides what either hides, and ``|``
shows what either shows. Each has the shape that broadcasts to the scores.
"""

from __future__ import annotations

from attnscope.reference.masks.by_place import band, causal, prefix, window
from attnscope.reference.masks.by_token import document_ids, documents, padding, padding_from_ids
from attnscope.reference.masks.conventions import (
    convention_of,
    from_additive,
    from_drop,
    from_keep,
    from_tokenizer,
    split_additive,
    to_additive,
    to_drop,
    to_keep,
    to_tokenizer,
)
from attnscope.reference.masks.multihead import from_multihead, to_attn_mask, to_key_padding_mask

__all__ = [
    "band",
    "causal",
    "convention_of",
    "document_ids",
    "documents",
    "from_additive",
    "from_drop",
    "from_keep",
    "from_multihead",
    "from_tokenizer",
    "padding",
    "padding_from_ids",
    "prefix",
    "split_additive",
    "to_additive",
    "to_attn_mask",
    "to_drop",
    "to_keep",
    "to_key_padding_mask",
    "to_tokenizer",
    "window",
]
