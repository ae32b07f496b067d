"""Other programs, each in its own way of seeing the attention patterns of a whole model.

All of them need eager attention: fused attention makes no weights that they could see.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Any

from torch import Tensor, nn

from benchmarks.costing.case import Setting
from benchmarks.costing.variant import Prepared

_PATTERN = "hook_pattern"


# -- TransformerLens -------------------------------------------------------------------------------


def bridge(setting: Setting) -> Prepared:
    """Cache the patterns alone."""
    return _bridge(setting, names_filter=_is_pattern)


def bridge_everything(setting: Setting) -> Prepared:
    """Cache all that has a hook, which is what `run_with_cache` does when nothing is chosen."""
    return _bridge(setting)


def _bridge(setting: Setting, **options: Any) -> Prepared:
    from transformer_lens.model_bridge import TransformerBridge

    model, tokenizer = setting.new_model("eager")
    path, config = model.name_or_path, model.config
    booted = TransformerBridge.boot_transformers(
        path, hf_model=_with_head(model, config), tokenizer=tokenizer, device="cpu"
    )
    ids, mask = setting.inputs["input_ids"], setting.inputs["attention_mask"]
    return Prepared(
        lambda: booted.run_with_cache(ids, attention_mask=mask, **options),
        lambda result: [result[1][name] for name in result[1] if _is_pattern(name)],
    )


def _with_head(model: nn.Module, config: Any) -> nn.Module:
    """Return `model`, or for a bare BertModel, which the bridge can't take, one with a head.

    The head predicts a single word, so that it costs next to nothing.
    """
    if type(model).__name__ != "BertModel":
        return model
    from transformers import BertForMaskedLM

    whole: Any = BertForMaskedLM(config)
    whole.eval()
    whole.bert = model
    whole.cls.predictions.decoder = nn.Linear(config.hidden_size, 1)
    return whole  # type: ignore[no-any-return]  # a module of transformers


def _is_pattern(name: str) -> bool:
    return name.endswith(_PATTERN)


# -- nnsight ---------------------------------------------------------------------------------------


def nnsight_trace(setting: Setting) -> Prepared:
    """Save the weights that each attention module returns as its second output."""
    from nnsight import NNsight

    model, _ = setting.new_model("eager")
    watched = NNsight(model)
    layers = attrgetter(setting.case.layers)(watched)
    modules = [attrgetter(setting.case.attention)(layer) for layer in layers]
    inputs = dict(setting.inputs)

    def run() -> list[Tensor]:
        saved: list[Tensor] = []
        with watched.trace(**inputs):
            for module in modules:
                saved.append(module.output[1].save())  # noqa: PERF401  nnsight compiles this block
        return saved

    return Prepared(run, lambda saved: saved)


# -- TorchLens -------------------------------------------------------------------------------------


def torchlens_softmaxes(setting: Setting) -> Prepared:
    """Save the outputs of softmaxes alone, and by reference: the cheapest that it offers."""
    import torchlens

    return _torchlens(setting, save=torchlens.func("softmax"), save_mode="reference")


def torchlens_everything(setting: Setting) -> Prepared:
    """Save the output of every operation, which is what `torchlens.trace` does by itself."""
    return _torchlens(setting)


def _torchlens(setting: Setting, **options: Any) -> Prepared:
    import torchlens

    model, _ = setting.new_model("eager")
    inputs = dict(setting.inputs)
    return Prepared(
        lambda: torchlens.trace(model, input_kwargs=inputs, **options),
        lambda seen: [layer.out for layer in seen.layer_list if layer.func_name == "softmax"],
    )
