"""What the names of arguments and variables say: the field's habits, in one place."""

from __future__ import annotations

import re
from typing import Literal

__all__ = [
    "BATCH_NAMES",
    "FULL_IDS",
    "LENGTH_NAMES",
    "is_causal_name",
    "is_ids",
    "is_label",
    "is_lengths",
    "is_mask",
    "is_memory",
    "is_of_layers",
    "is_past",
    "is_positions",
    "is_segments",
    "is_sizes",
    "is_video",
    "mask_meaning",
    "speaks_of_keys",
]

BATCH_NAMES = frozenset(
    "b bs bsz bz batch batch_size nbatches batches bsize B Bs BS N_batch".split()
)
LENGTH_NAMES = frozenset(
    "t T l L s S seq seq_len seqlen seq_length length tgt_len src_len time timesteps steps tokens "
    "n_tokens num_tokens q_len query_len max_len sl slen Tq Lq len_q tlen T_q lx".split()
)
"""Names of sizes that people unpack a shape into: `batch, length, width = x.shape`."""

FULL_IDS = frozenset(
    "input_ids ids idx token_ids tokens src_ids tgt_ids decoder_input_ids src tgt input inputs x "
    "words items item_seq seq sequence".split()
)

_MEMORY = re.compile(
    r"memory|encoder_(hidden_states|outputs?|out)|^enc(_out(put)?)?$|context(?!_length)|^ctx$|"
    r"cond(itioning)?$|^keys?$|^values?$|^kv$|^k$|^v$|key_value_states|^cross|vision|image_emb|"
    r"text_emb|^source$|^src"
)
_MAIN = re.compile(r"^(tgt|target|decoder_|query|queries|q$|x$|hidden|latents?)")
_PAST = re.compile(r"past|cache|^mems?$|kv_?cache|^state$|layer_past|prev_?kv|incremental")
_OF_LAYERS = re.compile(r"^mem(s|ory|ories)?$|past|cache|^state|^hidden$|^h_?0$|^hx$")
_POSITIONS = re.compile(r"pos(ition)?s?(_ids?)?$|^position|_positions$|^offset")
_SEGMENTS = re.compile(
    r"doc(ument)?s?(_ids?)?$|(seg|segment)s?(_ids?)?$|sequence_ids?$|token_type|packed"
)
_LENGTHS = re.compile(r"len(gth)?s?$|^n_?valid|valid_len|seqlens")
_SIZES = re.compile(r"(shape|size)s?$|(^|_)grids?(_|$)|_(thw|hw|wh)s?$")
_LABELS = re.compile(r"^labels?$|^targets?$|^y_true$|^gold")
_MASK = re.compile(r"mask|^pad(ding)?$|^keep$|^valid$|(?<!^[xyz]s)_pad$|attn_bias|attention_bias")
_KEEP = re.compile(
    r"^(decoder_|encoder_|input_)?attention_mask$|keep|valid|visible|present|attend_to"
)
_DROP = re.compile(r"key_padding_mask$|ignore|^is_pad|drop_mask|blocked|masked_out|hidden_mask")
_VIDEO = re.compile(r"video|clip|frames?|slices|views|sequence|^vol")
_CAUSAL = re.compile(r"causal|autoregress|unidirectional|look_?ahead|subsequent|future|no_peek")


def is_mask(name: str) -> bool:
    """Return whether a name is that of a mask."""
    return bool(_MASK.search(name.lower()))


def mask_meaning(name: str) -> Literal["keep", "drop"] | None:
    """Return "keep" or "drop" where a name says what True means, by a known library's habit."""
    if _DROP.search(name.lower()):
        return "drop"
    return "keep" if _KEEP.search(name.lower()) else None


def is_lengths(name: str) -> bool:
    """Return whether a name is that of one length per sample."""
    return bool(_LENGTHS.search(name.lower()))


def is_sizes(name: str) -> bool:
    """Return whether a name is that of rows and columns of each picture."""
    return bool(_SIZES.search(name.lower()))


def speaks_of_keys(name: str) -> bool:
    """Return whether a name is that of something that says which keys there are."""
    return is_mask(name) or is_lengths(name)


def is_positions(name: str) -> bool:
    """Return whether a name is that of positions."""
    return bool(_POSITIONS.search(name.lower())) and not is_segments(name)


def is_segments(name: str) -> bool:
    """Return whether a name is that of a document or segment per token."""
    return bool(_SEGMENTS.search(name.lower()))


def is_past(name: str) -> bool:
    """Return whether a name is that of a cache."""
    return bool(_PAST.search(name.lower()))


def is_of_layers(name: str) -> bool:
    """Return whether a name is that of what single layers keep, which may come in one tensor.

    Its axes are (layers, batch, …) then, as those of a state of `torch.nn.GRU` are.
    """
    return bool(_OF_LAYERS.search(name.lower()))


def is_label(name: str) -> bool:
    """Return whether a name is that of what a loss compares with."""
    return bool(_LABELS.search(name.lower()))


def is_ids(name: str) -> bool:
    """Return whether a name is that of token ids."""
    return name.lower() in FULL_IDS or name.lower().endswith("ids")


def is_video(name: str) -> bool:
    """Return whether a name is that of pictures in a row, whose first axis may be the time."""
    return bool(_VIDEO.search(name.lower()))


def is_memory(name: str) -> bool:
    """Return whether a name is that of a sequence that another one reads."""
    lowered = name.lower()
    return bool(_MEMORY.search(lowered)) and not _MAIN.search(lowered)


def is_causal_name(name: str) -> bool:
    """Return whether a name speaks of a causal mask."""
    return bool(_CAUSAL.search(name.lower()))
