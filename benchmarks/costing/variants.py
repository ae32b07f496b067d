"""Every way in which the models are run; `PLAIN` is what all others are compared with."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal

from torch import Tensor, nn

import attnscope
from benchmarks.costing import peers
from benchmarks.costing.case import Setting
from benchmarks.costing.variant import Prepared, Variant

Keep = Literal["qkv", "all", "numbers"]


def _forward(model: nn.Module, inputs: Any, **more: Any) -> Callable[[], Any]:
    return lambda: model(**inputs, **more)


def _plain(setting: Setting, attention: str = "sdpa") -> Prepared:
    return Prepared(_forward(setting.model(attention), setting.inputs))


def _trace(setting: Setting, keep: Keep, attention: str = "sdpa") -> Prepared:
    model, inputs = setting.model(attention), dict[str, Any](setting.inputs)
    return Prepared(
        lambda: attnscope.trace(model, keep=keep, **inputs),
        None if keep == "numbers" else _weights,
    )


def _weights(trace: Any) -> list[Tensor]:
    return [call.weights() for call in trace]


def _output_attentions(setting: Setting) -> Prepared:
    """Use a model of its own: what transformers hooks into it for this stays there."""
    model, _ = setting.new_model("eager")
    return Prepared(
        _forward(model, setting.inputs, output_attentions=True),
        lambda output: list(output.attentions),
    )


PLAIN = Variant("plain", "transformers", _plain)
CONTROL = Variant("plain, where nothing was ever traced", "control", _plain)

VARIANTS: tuple[Variant, ...] = (
    PLAIN,
    CONTROL,
    *(
        Variant(f'trace, keep="{keep}"', "attnscope", partial(_trace, keep=keep), keep=keep)
        for keep in ("qkv", "all", "numbers")
    ),
    Variant("eager", "transformers", partial(_plain, attention="eager")),
    Variant(
        'trace, keep="qkv", of the eager model',
        "attnscope",
        partial(_trace, keep="qkv", attention="eager"),
    ),
    Variant("eager, output_attentions=True", "transformers", _output_attentions),
    Variant("run_with_cache, patterns", "TransformerLens", peers.bridge, "transformer-lens"),
    Variant(
        "run_with_cache, everything", "TransformerLens", peers.bridge_everything, "transformer-lens"
    ),
    Variant("trace, save each layer's weights", "nnsight", peers.nnsight_trace, "nnsight"),
    Variant("trace, softmaxes by reference", "TorchLens", peers.torchlens_softmaxes, "torchlens"),
    Variant("trace, everything", "TorchLens", peers.torchlens_everything, "torchlens"),
)


def process_of(variant: Variant) -> str:
    """Return the name of the process in which a variant is timed.

    What attnscope is compared with most closely shares its process, and with that the model and
    the state of the memory. A peer that patches PyTorch or the model can't disturb the others.
    """
    return "transformers" if variant.tool == "attnscope" else variant.tool
