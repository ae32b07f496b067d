"""How small each number of a configuration becomes, decided by what its name says it counts.

The rules are data: the first pattern that matches a field's name decides. All widths of a
configuration tree become the same number, so projections between parts keep fitting.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from math import gcd

WIDTH = 32
HEADS = 4
KV_HEADS = 2
HEAD_DIM = WIDTH // HEADS
LAYERS = 2
VOCABULARY = 128
POSITIONS = 128
SMALL_TOKEN_ID = 32


@dataclass(frozen=True, slots=True)
class Rule:
    """One way to shrink: `pattern` is searched in the field's name, `ceiling` bounds its value.

    A `ceiling` of None keeps the value. `stages` says what a list of such numbers means:
    "widths" takes an eighth of each (so equal widths stay equal from list to list and 256 becomes
    `WIDTH`), "heads" divides them by what they share, "cap" bounds each.
    """

    pattern: str
    ceiling: int | None
    stages: str = "cap"


RULES: tuple[Rule, ...] = (
    Rule(r"^(num_channels|in_chans|num_labels|num_mel_bins|type_vocab_sizes?)$", None),
    Rule(r"^(input_dim|input_size|model_in_dim|mel_dim|feature_size|.*input_feat.*)$", None),
    Rule(r"(^|_)(sampling|sample|frame)_rate|coefficient$|_cost$|_seed$|^seed$", None),
    Rule(r"kernel|stride|padding|dilation|ratio|multiplier|mult$", None),
    Rule(r"^pos_emb_(height|width)$", None),
    Rule(r"^num_filters$", 8),
    Rule(r"^upsample_groups$", WIDTH),
    Rule(r"^num_pos_feats$", WIDTH // 2),
    Rule(r"^num_groups$|^mm_tokens_per_image$", 4),
    Rule(r"group_size|downsample|upsampl(e_rates|ing)", None),
    Rule(r"^conv_pos|_merge_size$|^temporal_|_factor$|^scale|rank_factor|interval$", None),
    Rule(r"(num|n|^moe_num)_(local_|routed_)?experts$", 4),
    Rule(r"experts_per_tok|moe_topk$|top_k_experts|^moe_k$|^moe_top_k$|num_selected_experts", 2),
    Rule(r"shared_experts?$", 1),
    Rule(r"^n_group$", 2),
    Rule(r"^topk_group$", 1),
    Rule(r"^index_topk$", 4),
    Rule(r"(key_value|kv)_heads?$|^multi_query_group_num$|num_key_heads$", KV_HEADS, "heads"),
    Rule(r"heads?(_per_stage)?$|^num_heads", HEADS, "heads"),
    Rule(r"^rotary_dim$", 4),
    Rule(r"head_dim$|head_size$|^d_kv$|^d_head$|dim_head$|mamba_d_head", HEAD_DIM),
    Rule(r"lora_rank$|_rank$", 16),
    Rule(r"(^|_)layers?$|^depths?$|n_layers?$|num_layers|_depth$|num_blocks$|_blocks_per", LAYERS),
    Rule(r"dense_replace$|^num_dense_layers$", 1),
    Rule(r"intermediate|ffn_dim|^d_ff$|mlp_dim|feedforward|inner|^dff$|dim_ff$|ffn_hidden", 48),
    Rule(r"codebook_size|num_codevectors_per_group|num_centroids", 64),
    Rule(r"vocab_size|group_vocab$|num_embeds$", VOCABULARY),
    Rule(r"position|^n_ctx$|max_seq_len|context_length|max_(source|target)_|^seq_len", POSITIONS),
    Rule(r"sliding_window|attention_window|window_len|attention_chunk_size|local_attention", 4),
    Rule(r"window_size", 4),
    Rule(r"quer(y_tokens|ies)$|n?_latents$|num_latents", 6),
    Rule(r"(hidden|embed|embd|embedding|model|proj|projection).*(size|dim|width)", WIDTH, "widths"),
    Rule(r"hidden_sizes|embed_dims?|^dims?$|_dims?$|^n_embd$|^d_model$|width$", WIDTH, "widths"),
    Rule(r"channels?$|filters$|planes$|channel_list$|units$|conv_dim", WIDTH, "widths"),
    Rule(r"^patch_size$", 8),
    Rule(r"block_size$|chunk_length$", 4),
)


@cache
def rule_for(name: str) -> Rule | None:
    """Return the first rule whose pattern occurs in `name`, or None when none speaks of it."""
    return next((rule for rule in RULES if re.search(rule.pattern, name)), None)


def small(name: str, value: int) -> int:
    """Return the tiny stand-in for the number `value` of the field `name`."""
    if name == "in_channels" and value > 4:
        return min(value, WIDTH)
    rule = rule_for(name)
    if rule is None or rule.ceiling is None or value <= 0:
        return value
    return min(value, rule.ceiling)


def small_stages(name: str, values: list[int]) -> list[int]:
    """Return tiny stand-ins for one number per stage, keeping the ratios between stages."""
    rule = rule_for(name)
    if rule is None or rule.ceiling is None or min(values, default=0) <= 0:
        return values
    if rule.stages == "widths":
        return [value if value <= 4 else max(4, value // 8) for value in values]
    if rule.stages == "heads":
        shared = gcd(*values)
        return [value // shared for value in values]
    return [min(value, rule.ceiling) for value in values]
