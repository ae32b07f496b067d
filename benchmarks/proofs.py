"""Proves the faults of Hugging Face architectures that `upstream.py` names, without a check.

    python benchmarks/proofs.py             all of them, about a minute
    python benchmarks/proofs.py fsmt yoso   some of them

Each builds the plain model, tiny, changes one thing, and prints what moved.
"""

from __future__ import annotations

import argparse
import copy
import importlib
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

_HF: Any = importlib.import_module("transformers")

_SMALL: dict[str, Any] = {"num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 32}
_SMALL_PAIR: dict[str, Any] = {
    "d_model": 32,
    **{
        f"{side}_{name}": size
        for side in ("encoder", "decoder")
        for name, size in (("layers", 2), ("attention_heads", 4), ("ffn_dim", 64))
    },
}
"""Sizes of an encoder and a decoder."""


def main() -> int:
    """Print the proofs that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", choices=[*PROOFS, []], help="these alone")
    asked = parser.parse_args()
    _HF.logging.set_verbosity_error()
    warnings.simplefilter("ignore")
    for name in asked.names or PROOFS:
        torch.manual_seed(0)
        with torch.no_grad():
            for line in PROOFS[name]():
                print(f"{name}: {line}", flush=True)
    return 0


def blt() -> Iterator[str]:
    """Compare the last logits of a prompt, taken as a cached step, with those of the full pass."""
    from attnscope.targets.architectures import build  # which gives a config that fits together

    built: Any = build("blt")
    model, ids = built.model.eval(), built.inputs["input_ids"][:1]
    full = model(input_ids=ids, use_cache=False).logits
    first = model(input_ids=ids[:, :-1], use_cache=True)
    step = model(input_ids=ids[:, -1:], past_key_values=first.past_key_values, use_cache=True)
    yield f"the last logits differ by {_gap(step.logits[:, -1], full[:, -1])} of {_size(full)}"


def blt_global_transformer() -> Iterator[str]:
    """Compare sdpa and eager without a mask."""
    code = _code("blt")
    config = code.BltGlobalTransformerConfig(**_SMALL, num_key_value_heads=4, intermediate_size=64)
    x, outputs = torch.randn(2, 11, 32), []
    for way in ("sdpa", "eager"):
        config._attn_implementation = way  # noqa: SLF001  as from_pretrained sets it
        torch.manual_seed(1)
        output = code.BltGlobalTransformer(config).eval()(x)
        outputs.append(output if isinstance(output, Tensor) else output[0])
    yield f"sdpa and eager differ by {_gap(*outputs)} of {_size(outputs[0])}"


def cpmant() -> Iterator[str]:
    """Change the last token alone, and generate with and without a cache."""
    config = _HF.CpmAntConfig(
        vocab_size=60,
        hidden_size=32,
        num_attention_heads=4,
        dim_head=8,
        dim_ff=64,
        num_hidden_layers=2,
        prompt_length=8,
    )
    model, ids = _HF.CpmAntForCausalLM(config).eval(), torch.randint(5, 60, (1, 11))
    one, other = (model(each).logits for each in (ids, _other_last(ids)))
    yield f"another last token moves the logits of position 0 by {_gap(one[0, 0], other[0, 0])}"
    for cached in (True, False):
        made = model.generate(ids, max_new_tokens=12, do_sample=False, use_cache=cached)
        yield f"generate(use_cache={cached}) gives {made[0, 11:].tolist()}"


def fsmt() -> Iterator[str]:
    """Change the last token of the decoder alone, with and without use_cache."""
    vocabularies = {"src_vocab_size": 60, "tgt_vocab_size": 60}
    config = _HF.FSMTConfig(**_SMALL_PAIR, **vocabularies, langs=["en", "de"])
    model = _HF.FSMTForConditionalGeneration(config).eval()
    source, target = torch.randint(5, 60, (1, 9)), torch.randint(5, 60, (1, 7))
    for flags in ({}, {"use_cache": False}):
        one, other = (
            model(input_ids=source, decoder_input_ids=each, **flags).logits
            for each in (target, _other_last(target))
        )
        moved = _gap(one[0, 0], other[0, 0])
        yield f"{flags}: another last token moves the logits of position 0 by {moved}"
    given = {"input_ids": source, "decoder_input_ids": target, "output_attentions": True}
    seen = model.train()(**given).decoder_attentions[0]
    later = float(seen[0, :, 0, 1:].sum(-1).mean())
    yield f"in train mode query 0 gives {later:.2f} of its weight to later tokens"


def led() -> Iterator[str]:
    """Hide the first half of the decoder's tokens, from a full pass and from a cached step."""
    config = _HF.LEDConfig(**_SMALL_PAIR, vocab_size=60, attention_window=4)
    model = _HF.LEDForConditionalGeneration(config).eval()
    source, target = torch.randint(5, 60, (1, 8)), torch.randint(5, 60, (1, 8))
    half = torch.ones_like(target)
    half[:, :4] = 0
    first = model(input_ids=source, decoder_input_ids=target[:, :-1], use_cache=True)
    for name, given in (
        ("a full pass", {"decoder_input_ids": target, "use_cache": False}),
        ("a cached step", {"decoder_input_ids": target[:, -1:], "use_cache": True}),
    ):
        last = []
        for mask in (torch.ones_like(target), half):
            cache = copy.deepcopy(first.past_key_values) if given["use_cache"] else None
            output = model(
                input_ids=source, decoder_attention_mask=mask, past_key_values=cache, **given
            )
            last.append(output.logits[:, -1])
        yield f"hiding half moves the last logits of {name} by {_gap(*last)}"


def moshi() -> Iterator[str]:
    """Decode one token a step with a window below the length, and above it."""
    for window in (4, 64):
        config = _HF.MoshiConfig(
            **_SMALL,
            vocab_size=60,
            ffn_dim=64,
            head_dim=8,
            sliding_window=window,
            num_codebooks=2,
            audio_vocab_size=60,
        )
        model, ids = _HF.MoshiForCausalLM(config).eval(), torch.randint(0, 60, (1, 11))
        full, cache, steps = model(ids, use_cache=False).logits, None, list[Tensor]()
        for at in range(11):
            output = model(ids[:, at : at + 1], cache=cache, use_cache=True)
            cache, steps = output.cache, [*steps, output.logits]
        gaps = (torch.cat(steps, 1) - full).abs().amax((0, 2))
        yield f"window {window}: gaps by position {[round(float(gap), 3) for gap in gaps]}"


def neucodec() -> Iterator[str]:
    """Shuffle the tokens of an attention whose positions count the heads, as the decoder does."""
    return _turned_by_head("neucodec", "NeuCodec")


def xcodec2() -> Iterator[str]:
    """Shuffle the tokens of an attention whose positions count the heads, as the decoder does."""
    return _turned_by_head("xcodec2", "Xcodec2")


def _turned_by_head(family: str, prefix: str) -> Iterator[str]:
    code = _code(family)
    config = getattr(_HF, f"{prefix}Config")(
        hidden_size=32, num_attention_heads=4, num_key_value_heads=4, head_dim=8
    )
    config._attn_implementation = "sdpa"  # noqa: SLF001  as from_pretrained sets it
    name = next(n for n in dir(code) if n.endswith("Attention") and prefix in n)
    layer = getattr(code, name)(config, 0).eval()
    x, order = torch.randn(1, 12, 32), torch.randperm(12)
    turned = getattr(code, f"{prefix}RotaryEmbedding")(config=config)(x, torch.arange(4)[None])
    one, other = (
        layer(each, position_embeddings=turned, attention_mask=None)[0] for each in (x, x[:, order])
    )
    gap = _gap(one[:, order], other)
    yield f"cos is {tuple(turned[0].shape)} for 12 tokens and 4 heads; shuffled tokens: {gap}"


def phi4_multimodal_vision() -> Iterator[str]:
    """Look at the first weights, and change the last row of patches with eager and with sdpa."""
    code = _code("phi4_multimodal")
    sizes = {"image_size": 32, "patch_size": 8, "crop_size": 32, "intermediate_size": 64}
    config = code.Phi4MultimodalVisionConfig(**_SMALL | sizes | {"hidden_size": 64})
    x, mask = torch.randn(2, 3, 32, 32), torch.ones(2, 4, 4, dtype=torch.bool)
    below = torch.cat((x[:, :, :24], torch.randn(2, 3, 8, 32)), 2)
    for way in ("eager", "sdpa"):
        config._attn_implementation = way  # noqa: SLF001  as from_pretrained sets it
        torch.manual_seed(1)
        model = code.Phi4MultimodalVisionModel(config).eval()
        std = float(model.encoder.layers[0].self_attn.q_proj.weight.std())
        one, other = (model(each, patch_attention_mask=mask)[0] for each in (x, below))
        moved = _gap(one[:, 0], other[:, 0])
        yield f"{way}: std of q_proj {std:.2f}; other last patches move the first one by {moved}"


def swiftformer() -> Iterator[str]:
    """Multiply the learned weights of the tokens by -1000."""
    code = _code("swiftformer")
    layer = code.SwiftFormerEfficientAdditiveAttention(_HF.SwiftFormerConfig(), dim=32).eval()
    x, other = torch.randn(2, 49, 32), copy.deepcopy(layer)
    other.w_g.mul_(-1000)
    yield f"w_g times -1000 moves the output by {_gap(layer(x), other(x))}"


def vit_mae() -> Iterator[str]:
    """Show the tables of positions of a model that was made from its config."""
    config = _HF.ViTMAEConfig(
        **_SMALL,
        image_size=32,
        patch_size=8,
        intermediate_size=64,
        decoder_hidden_size=32,
        decoder_num_hidden_layers=2,
        decoder_num_attention_heads=4,
        decoder_intermediate_size=64,
    )
    model = _HF.ViTMAEForPreTraining(config)
    for name, table in model.named_parameters():
        if "pos" in name:
            yield f"{name}: largest entry {_size(table)}, requires_grad {table.requires_grad}"


def yoso() -> Iterator[str]:
    """Hide the second half of the tokens."""
    config = _HF.YosoConfig(
        **_SMALL, vocab_size=60, intermediate_size=48, max_position_embeddings=40
    )
    model, ids = _HF.YosoModel(config).eval(), torch.randint(2, 60, (2, 16))
    half = torch.ones_like(ids)
    half[:, 8:] = 0
    one, other = (model(ids, attention_mask=mask)[0] for mask in (torch.ones_like(ids), half))
    yield f"hiding the second half moves the first one by {_gap(one[:, :8], other[:, :8])}"


def _code(family: str) -> Any:
    """Return the modelling file of a family, whose parts have no public names."""
    return importlib.import_module(f"transformers.models.{family}.modeling_{family}")


def _other_last(ids: Tensor) -> Tensor:
    other = ids.clone()
    other[0, -1] = (ids[0, -1] + 1) % 50 + 5
    return other


def _gap(one: Tensor, other: Tensor) -> str:
    return f"{float((one - other).abs().max()):.2g}"


def _size(tensor: Tensor) -> str:
    return f"{float(tensor.abs().max()):.2g}"


PROOFS: dict[str, Callable[[], Iterator[str]]] = {
    each.__name__: each
    for each in (
        blt,
        blt_global_transformer,
        cpmant,
        fsmt,
        led,
        moshi,
        neucodec,
        phi4_multimodal_vision,
        swiftformer,
        vit_mae,
        xcodec2,
        yoso,
    )
}

if __name__ == "__main__":
    sys.exit(main())
