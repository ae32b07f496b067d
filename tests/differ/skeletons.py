"""Modules that hold parameters under the names of well-known codes, to be paired, not run."""

from __future__ import annotations

import itertools

import torch
from torch import nn

Entry = tuple[str, nn.Module | nn.Parameter, tuple[str, ...]]


def linear(inputs: int, outputs: int, *, bias: bool = True) -> nn.Linear:
    return nn.Linear(inputs, outputs, bias=bias)


def build(entries: list[Entry], **attributes: object) -> tuple[nn.Module, dict[str, list[str]]]:
    """Return a module with these parts and, by name, the reference's names each should be of."""
    root = nn.Module()
    expected: dict[str, list[str]] = {}
    for path, part, references in entries:
        put(root, path, part)
        leaves = [""] if isinstance(part, nn.Parameter) else [n for n, _ in part.named_parameters()]
        for leaf in leaves:
            name = f"{path}.{leaf}" if leaf else path
            kind = "bias" if leaf.endswith("bias") else "weight"
            expected[name] = [f.format(leaf=kind) for f in references]
    for name, value in attributes.items():
        setattr(root, name, value)
    return root, expected


def put(root: nn.Module, path: str, part: nn.Module | nn.Parameter) -> None:
    """Put a part at a path, with lists where the path has numbers."""
    steps = path.split(".")
    for at, step in enumerate(steps[:-1]):
        if step not in dict(root.named_children()):
            root.add_module(step, nn.ModuleList() if steps[at + 1].isdigit() else nn.Module())
        root = root.get_submodule(step)
    if isinstance(part, nn.Parameter):
        root.register_parameter(steps[-1], part)
    else:
        root.add_module(steps[-1], part)


def shuffle(model: nn.Module, seed: int) -> nn.Module:
    """Give every parameter values that no other has."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    return model


_SEEDS = itertools.count()


def modules(**parts: nn.Module | nn.Parameter) -> nn.Module:
    entries: list[Entry] = [(name, part, ()) for name, part in parts.items()]
    return shuffle(build(entries)[0], next(_SEEDS))


def qkv(template: str, width: int = 16, *, bias: bool = True) -> nn.Module:
    names = [template.format(part) for part in "qkv"]
    return modules(**{name: linear(width, width, bias=bias) for name in names})


def nano(width: int = 32, inner: int = 128, vocabulary: int = 128) -> list[Entry]:
    """GPT-2 as tutorials split it: W_q, W_k, W_v, a Sequential as feed-forward."""
    found: list[Entry] = [
        ("tok_emb", nn.Embedding(vocabulary, width), ("transformer.wte.{leaf}",)),
        ("pos_emb", nn.Embedding(vocabulary, width), ("transformer.wpe.{leaf}",)),
    ]
    for i in range(2):
        h = f"transformer.h.{i}."
        found += [
            (f"blocks.{i}.sa.{name}", linear(width, width), (h + "attn.c_attn.{leaf}",))
            for name in ("W_q", "W_k", "W_v")
        ]
        found += [
            (f"blocks.{i}.sa.W_o", linear(width, width), (h + "attn.c_proj.{leaf}",)),
            (f"blocks.{i}.ffwd.net.0", linear(width, inner), (h + "mlp.c_fc.{leaf}",)),
            (f"blocks.{i}.ffwd.net.2", linear(inner, width), (h + "mlp.c_proj.{leaf}",)),
            (f"blocks.{i}.ln1", nn.LayerNorm(width), (h + "ln_1.{leaf}",)),
            (f"blocks.{i}.ln2", nn.LayerNorm(width), (h + "ln_2.{leaf}",)),
        ]
    found.append(("ln_f", nn.LayerNorm(width), ("transformer.ln_f.{leaf}",)))
    return found


def torch_encoder(width: int = 32, inner: int = 48, vocabulary: int = 128) -> list[Entry]:
    """BERT on torch's own encoder layers."""
    b = "bert.embeddings."
    found: list[Entry] = [
        ("tokens", nn.Embedding(vocabulary, width), (b + "word_embeddings.{leaf}",)),
        ("positions", nn.Embedding(vocabulary, width), (b + "position_embeddings.{leaf}",)),
        ("segments", nn.Embedding(2, width), (b + "token_type_embeddings.{leaf}",)),
        ("emb_norm", nn.LayerNorm(width), (b + "LayerNorm.{leaf}",)),
    ]
    for i in range(2):
        e = f"bert.encoder.layer.{i}."
        a = e + "attention.self."
        parts = (a + "query.{leaf}", a + "key.{leaf}", a + "value.{leaf}")
        attention = nn.MultiheadAttention(width, 4)
        found += [
            (f"encoder.layers.{i}.self_attn", attention, parts),
            (
                f"encoder.layers.{i}.linear1",
                linear(width, inner),
                (e + "intermediate.dense.{leaf}",),
            ),
            (f"encoder.layers.{i}.linear2", linear(inner, width), (e + "output.dense.{leaf}",)),
            (
                f"encoder.layers.{i}.norm1",
                nn.LayerNorm(width),
                (e + "attention.output.LayerNorm.{leaf}",),
            ),
            (f"encoder.layers.{i}.norm2", nn.LayerNorm(width), (e + "output.LayerNorm.{leaf}",)),
        ]
    c = "cls.predictions."
    found += [
        ("mlm.dense", linear(width, width), (c + "transform.dense.{leaf}",)),
        ("mlm.norm", nn.LayerNorm(width), (c + "transform.LayerNorm.{leaf}",)),
        ("mlm.bias", nn.Parameter(torch.zeros(vocabulary)), (c + "bias",)),
    ]
    return found


def own_t5(width: int = 32, inner: int = 48, vocabulary: int = 128) -> list[Entry]:
    """T5 with to_q, cross_attn and RMSNorms of torch."""
    found: list[Entry] = [("embed", nn.Embedding(vocabulary, width), ("shared.{leaf}",))]
    for stack in ("encoder", "decoder"):
        for i in range(2):
            mine, theirs = f"{stack}.layers.{i}.", f"{stack}.block.{i}.layer."
            zones = [("self_attn", "0.SelfAttention")]
            if stack == "decoder":
                zones.append(("cross_attn", "1.EncDecAttention"))
            for zone, other in zones:
                for part in "qkv":
                    reference = (f"{theirs}{other}.{part}.{{leaf}}",)
                    found.append(
                        (f"{mine}{zone}.to_{part}", linear(width, width, bias=False), reference)
                    )
                reference = (f"{theirs}{other}.o.{{leaf}}",)
                found.append((f"{mine}{zone}.to_out", linear(width, width, bias=False), reference))
            last = len(zones)
            ff = f"{theirs}{last}.DenseReluDense."
            found += [
                (f"{mine}mlp.fc1", linear(width, inner, bias=False), (ff + "wi.{leaf}",)),
                (f"{mine}mlp.fc2", linear(inner, width, bias=False), (ff + "wo.{leaf}",)),
            ]
            found += [
                (f"{mine}norms.{j}", nn.RMSNorm(width), (f"{theirs}{j}.layer_norm.{{leaf}}",))
                for j in range(last + 1)
            ]
        bias = f"{stack}.block.0.layer.0.SelfAttention.relative_attention_bias."
        found += [
            (f"{stack}.rel_bias", nn.Embedding(32, 4), (bias + "{leaf}",)),
            (f"{stack}.norm", nn.RMSNorm(width), (f"{stack}.final_layer_norm.{{leaf}}",)),
        ]
    return found


def split_neox(
    body: str, layers: str, attention: str, width: int = 32, inner: int = 48
) -> list[Entry]:
    """GPT-NeoX, BLOOM or Falcon with q, k and v apart."""
    found: list[Entry] = []
    for i in range(2):
        h = f"{body}.{layers}.{i}."
        fused = f"{h}{attention}.query_key_value."
        found += [
            (f"layers.{i}.attn.{name}_proj", linear(width, width), (fused + "{leaf}",))
            for name in ("query", "key", "value")
        ]
        found += [
            (
                f"layers.{i}.attn.out_proj",
                linear(width, width),
                (f"{h}{attention}.dense.{{leaf}}",),
            ),
            (f"layers.{i}.mlp.up", linear(width, inner), (h + "mlp.dense_h_to_4h.{leaf}",)),
            (f"layers.{i}.mlp.down", linear(inner, width), (h + "mlp.dense_4h_to_h.{leaf}",)),
            (f"layers.{i}.norm_attn", nn.LayerNorm(width), (h + "input_layernorm.{leaf}",)),
            (f"layers.{i}.norm_mlp", nn.LayerNorm(width), (h + "post_attention_layernorm.{leaf}",)),
        ]
    return found


def timm_vit(width: int = 32, inner: int = 48) -> list[Entry]:
    """A vision transformer as timm names it."""
    v = "vit.embeddings."
    found: list[Entry] = [
        ("cls_token", nn.Parameter(torch.zeros(1, 1, width)), (v + "cls_token",)),
        ("pos_embed", nn.Parameter(torch.zeros(1, 17, width)), (v + "position_embeddings",)),
        (
            "patch_embed.proj",
            nn.Conv2d(3, width, 8, 8),
            (v + "patch_embeddings.projection.{leaf}",),
        ),
    ]
    for i in range(2):
        h = f"vit.layers.{i}."
        parts = tuple(f"{h}attention.{part}_proj.{{leaf}}" for part in "qkv")
        found += [
            (f"blocks.{i}.norm1", nn.LayerNorm(width), (h + "layernorm_before.{leaf}",)),
            (f"blocks.{i}.attn.qkv", linear(width, 3 * width), parts),
            (f"blocks.{i}.attn.proj", linear(width, width), (h + "attention.o_proj.{leaf}",)),
            (f"blocks.{i}.norm2", nn.LayerNorm(width), (h + "layernorm_after.{leaf}",)),
            (f"blocks.{i}.mlp.fc1", linear(width, inner), (h + "mlp.fc1.{leaf}",)),
            (f"blocks.{i}.mlp.fc2", linear(inner, width), (h + "mlp.fc2.{leaf}",)),
        ]
    found += [
        ("norm", nn.LayerNorm(width), ("vit.layernorm.{leaf}",)),
        ("head", linear(width, 2), ("classifier.{leaf}",)),
    ]
    return found


def interleaved_list(width: int, inner: int, kv: int, vocabulary: int) -> list[Entry]:
    """Llama as x-transformers lays it: attention and feed-forward are layers in turn."""
    found: list[Entry] = [
        ("token_emb.emb", nn.Embedding(vocabulary, width), ("model.embed_tokens.{leaf}",))
    ]
    for i in range(2):
        h = f"model.layers.{i}."
        a, f = f"attn_layers.layers.{2 * i}.", f"attn_layers.layers.{2 * i + 1}."
        found.append((a + "0.0", nn.RMSNorm(width), (h + "input_layernorm.{leaf}",)))
        for part, outputs in (("q", width), ("k", kv), ("v", kv)):
            reference = (f"{h}self_attn.{part}_proj.{{leaf}}",)
            found.append((f"{a}1.to_{part}", linear(width, outputs, bias=False), reference))
        found += [
            (a + "1.to_out", linear(width, width, bias=False), (h + "self_attn.o_proj.{leaf}",)),
            (f + "0.0", nn.RMSNorm(width), (h + "post_attention_layernorm.{leaf}",)),
            (
                f + "1.ff.0.proj",
                linear(width, 2 * inner, bias=False),
                (h + "mlp.gate_proj.{leaf}", h + "mlp.up_proj.{leaf}"),
            ),
            (f + "1.ff.2", linear(inner, width, bias=False), (h + "mlp.down_proj.{leaf}",)),
        ]
    found += [
        ("attn_layers.final_norm", nn.RMSNorm(width), ("model.norm.{leaf}",)),
        ("to_logits", linear(width, vocabulary, bias=False), ("lm_head.{leaf}",)),
    ]
    return found
