"""The words that people and libraries name the parts of a transformer with.

Hugging Face, torch.nn, timm, x-transformers, nanoGPT, Meta's Llama and what people write
themselves call one projection `q_proj`, `query`, `W_q`, `to_q`, `wq`, `q_lin` or `linears.0`.
"""

from __future__ import annotations

import re

_TOKEN = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_BEFORE = set(
    "w b to linear lin fc c proj projection mat matrix attn attention self cross mixed mlp ffn"
    " ff".split()
)
_AFTER = set(
    "proj projection projections lin linear layer dense weight weights bias attn w b net mat matrix"
    " transform map mapping fc kernel param head heads".split()
)
_LETTERS = re.compile(r"(?:w|to|b)?(q|k|v|o|qkv|kqv|kv|qk|queries|keys|values|query|key|value)s?")

GENERIC = set(
    "dense proj projection linear lin layer net weight bias kernel fc c module sublayer fn model"
    " block sequential".split()
)

ATTENTION = {
    "q": "q queries query que qry",
    "k": "k keys key",
    "v": "v values value val vals",
    "qkv": "qkv kqv query_key_value q_k_v attn in pack qkvs in_out",
    "kv": "kv key_value k_v kvs keys_values",
    "qk": "qk query_key",
    "o": "o out output outputs unify unifyheads unify_heads merge combine concat final back o_",
    "sinks": "sinks sink",
}
FEEDFORWARD = {
    "gate": "gate g wi_0 wg gates",
    "up": "up fc1 fc_1 linear1 linear_1 lin1 lin_1 fc_in intermediate wi wi_1 in dense1 dense_1"
    " expand h_to_4_h fc hidden l1 first inner layer1 layer_1 ff1 ff_1 1 increase",
    "down": "down fc2 fc_2 linear2 linear_2 lin2 lin_2 fc_out wo output out 4_h_to_h contract l2"
    " second dense2 dense_2 outer layer2 layer_2 ff2 ff_2 2 reduce",
    "gate_up": "gate_up gateup gate_and_up up_gate w12",
}
HEAD = set(
    "head lm_head output unembed unembedding logits to_logits generator classifier score lm"
    " predictions vocab embed_out out fc_out decoder cls readout".split()
)
POSITION = set("pos position positions positional wpe".split())
TYPE = set("type types segment segments".split())
CROSS = set(
    "cross crossattention encdec src context memory mem crossattn enc encoder ca inter".split()
)
ATTENTION_TOKENS = set(
    "attn attention mha selfattention selfattn sa msa attns mhsa crossattention crossattn multihead"
    " att self".split()
)
FEEDFORWARD_TOKENS = set(
    "mlp ff ffn ffwd feedforward intermediate expert experts pwff feed moe ffw".split()
)
LAYER_WORDS = set("layers layer h blocks block blks encoder_layers decoder_layers stages".split())
LISTS_INSIDE = set("head heads expert experts linears projections sublayer sublayers net".split())
NORM_TOKENS = set("norm ln layernorm rmsnorm rms norms".split())

ADAPTER = re.compile("lora|adapter|base_layer", re.IGNORECASE)
LOW_RANK = re.compile("lora|adapter", re.IGNORECASE)

_OF = {
    "attention": {word: part for part, words in ATTENTION.items() for word in words.split()},
    "feedforward": {word: part for part, words in FEEDFORWARD.items() for word in words.split()},
}


def tokens(component: str) -> list[str]:
    """Return the words of one part of a path, in lower case.

    Example:
        >>> tokens("DenseReluDense"), tokens("W_q"), tokens("ln1")
        (['dense', 'relu', 'dense'], ['w', 'q'], ['ln', '1'])
    """
    return [token.lower() for token in _TOKEN.findall(component)]


def core(component: str) -> str:
    """Return what is left of a name without the words that say nothing of its part.

    Example:
        >>> [core(name) for name in ("q_proj", "W_q", "to_qkv", "toqueries", "c_proj", "linear1")]
        ['q', 'q', 'qkv', 'queries', 'proj', 'linear1']
    """
    words = tokens(component)
    letters = _LETTERS.fullmatch("_".join(words))
    if letters:
        return letters[1]
    while len(words) > 1 and words[0] in _BEFORE and not words[1].isdigit():
        words = words[1:]
    while len(words) > 1 and words[-1] in _AFTER:
        words = words[:-1]
    if len(words) == 1:
        letters = _LETTERS.fullmatch(words[0])
        return letters[1] if letters else words[0]
    if len(words) == 2 and words[1].isdigit():
        return "".join(words)
    return "_".join(words)


def part_in(zone: str, word: str) -> str | None:
    """Return the part that a word names inside attention or a feed-forward, or None."""
    zone = "attention" if zone == "cross" else zone
    return _OF.get(zone, {}).get(word)


def order_in(component: str) -> tuple[str, ...]:
    """Return the order of q, k and v in a fused projection, as its name spells it.

    Example:
        >>> order_in("kqv"), order_in("c_attn")
        (('k', 'q', 'v'), ('q', 'k', 'v'))
    """
    return tuple(_letters(component) or "qkv")


def spelt(component: str) -> bool:
    """Whether the name of a fused projection spells the order of its parts.

    Example:
        >>> spelt("to_qkv"), spelt("query_key_value"), spelt("gate_up_proj"), spelt("c_attn")
        (True, True, True, False)
    """
    said = "_".join(tokens(component))
    spelled = ("query_key_value", "q_k_v", "key_value", "gate_up", "kv", "qk")
    return bool(_letters(component)) or any(word in said for word in spelled)


def _letters(component: str) -> str:
    """Return q, k and v in the order in which one word of a name has them, or nothing."""
    words = (word.lstrip("w") for word in tokens(component))
    return next((word for word in words if sorted(word) == ["k", "q", "v"]), "")
