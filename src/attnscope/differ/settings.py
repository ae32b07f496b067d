"""The numbers that shape an attention, as a model's config or its modules name them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from torch import nn

from attnscope.differ.pairing.geometry import CONFIGS, HEAD_DIM, HEADS, KV_HEADS, named_in
from attnscope.differ.pairing.tensors import kind_of

NAMES: Mapping[str, tuple[str, ...]] = {
    "heads": tuple(HEADS),
    "kv heads": tuple(KV_HEADS),
    "head_dim": tuple(HEAD_DIM),
    "width": tuple("hidden_size d_model n_embd embed_dim model_dim dim width emb_dim".split()),
    "layers": tuple("num_hidden_layers n_layer n_layers num_layers depth".split()),
    "vocabulary": tuple("vocab_size n_vocab num_embeddings_total".split()),
    "rotary base": tuple(
        "rope_theta rotary_emb_base rope_base rotary_base theta rope_freq_base".split()
    ),
    "rotary share": tuple("partial_rotary_factor rotary_pct rotary_share rotary_fraction".split()),
    "rotary width": tuple("rotary_dim rot_dim rotary_ndims qk_rope_head_dim".split()),
    "window": tuple("sliding_window window window_size attention_window local_window".split()),
    "softcap": tuple(
        "attn_logit_softcapping softcap logit_softcap soft_cap logits_soft_cap".split()
    ),
    "scale": tuple("scale scaling softmax_scale attention_multiplier attn_scale".split()),
    "norm eps": tuple(
        "rms_norm_eps layer_norm_eps layer_norm_epsilon norm_eps norm_epsilon".split()
    ),
    "activation": tuple("hidden_act activation_function hidden_activation activation act".split()),
    "ties embeddings": ("tie_word_embeddings", "tie_embeddings", "tie_weights"),
    "bos token": ("bos_token_id", "bos_id"),
    "pad token": ("pad_token_id", "pad_id", "padding_idx"),
}
_NESTED = ("rope_parameters", "rope_scaling", "rope")
_EPS = ("eps", "variance_epsilon", "epsilon")


@dataclass(frozen=True, slots=True)
class Setting:
    """The values that a side names for one thing, and where it names the first."""

    values: tuple[object, ...]
    place: str


def settings_of(model: nn.Module) -> dict[str, Setting]:
    """Return the settings that a model's configs, else its modules' attributes, name.

    Several values stand where modules differ. An attribute of a module counts only where no config
    of the model says the same.
    """
    holders = list(_configs(model))
    modules = [
        (path or type(model).__name__, module)
        for path, module in model.named_modules()
        if not _computes_along(module)
    ]
    found = {}
    for name, spellings in NAMES.items():
        setting = _read(holders, spellings) or _read(modules, spellings)
        if name == "norm eps":
            setting = _norm_eps(model) or setting
        if setting is not None:
            found[name] = setting
    return found


def _computes_along(module: nn.Module) -> bool:
    """Whether a module's `dim` is an axis, as a softmax's or a weight norm's, and no width."""
    return type(module).__module__.startswith("torch.") and "dim" in vars(module)


def _configs(model: nn.Module) -> Iterator[tuple[str, Any]]:
    for name in CONFIGS:
        config = vars(model).get(name)
        if config is not None:
            yield name, config
            for nested in _NESTED:
                inner = named_in(config, nested)
                if isinstance(inner, Mapping):
                    yield f"{name}.{nested}", inner


def _read(holders: list[tuple[str, Any]], spellings: tuple[str, ...]) -> Setting | None:
    """Return the values under the first spelling that a holder knows, of all holders."""
    values: dict[object, str] = {}
    for place, holder in holders:
        for spelling in spellings:
            value = named_in(holder, spelling)
            if isinstance(value, bool | int | float | str):
                plain = float(value) if type(value) in {int, float} else value
                values.setdefault(plain, f"{place}.{spelling}")
                break
    return Setting(tuple(values), next(iter(values.values()))) if values else None


def _norm_eps(model: nn.Module) -> Setting | None:
    values: dict[object, str] = {}
    for path, module in model.named_modules():
        if kind_of(module) != "norm":
            continue
        for name in _EPS:
            value = vars(module).get(name)
            if isinstance(value, float):
                values.setdefault(value, f"{path}.{name}")
                break
    return Setting(tuple(values), next(iter(values.values()))) if values else None
