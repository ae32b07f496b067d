"""Pairs by name where values can't tell: kinds of layer, packings, zones, order."""

from __future__ import annotations

import doctest
from types import ModuleType

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnscope.differ import conditions, weights
from attnscope.differ.pairing import arrangement, idle, weightmap, words
from attnscope.differ.pairing.words import core, tokens
from attnscope.differ.weights import Packing, idle_parameters, pair
from attnscope.errors import InputError
from tests.differ.skeletons import Entry, build, linear, modules, qkv, shuffle


@pytest.mark.parametrize(
    "name",
    "q_proj query W_q Wq wq to_q q_lin query_proj linear_q fc_q queries toqueries q_linear"
    " query_layer q w_qs SelfAttention.q attn.q_attn query_transform proj_q q_net".split(),
)
def test_each_spelling_of_the_query_projection_is_one(name: str) -> None:
    leaf = name.rpartition(".")[2]
    assert core(leaf) in {"q", "query", "queries"}


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("DenseReluDense", ["dense", "relu", "dense"]),
        ("W_Q", ["w", "q"]),
        ("ln1", ["ln", "1"]),
        ("dense_h_to_4h", ["dense", "h", "to", "4", "h"]),
    ],
)
def test_a_name_is_read_as_words(name: str, read: list[str]) -> None:
    assert tokens(name) == read


def test_a_fused_projection_takes_q_k_v_in_the_standard_order() -> None:
    split = modules(q_proj=linear(16, 16), k_proj=linear(16, 16), v_proj=linear(16, 16))
    fused = modules(in_proj=linear(16, 48))
    found = pair(fused, split)
    assert found["in_proj.weight"].how == "concatenation of q_proj, k_proj, v_proj"
    assert found["in_proj.bias"].how == "concatenation of q_proj, k_proj, v_proj"
    back = pair(split, fused)
    assert [back[f"{part}_proj.bias"].how for part in "qkv"] == [
        "rows [0:16]",
        "rows [16:32]",
        "rows [32:48]",
    ]


def test_a_name_that_spells_another_order_is_believed() -> None:
    split = modules(q=linear(16, 16), k=linear(16, 16), v=linear(16, 16))
    found = pair(modules(kqv=linear(16, 48)), split)
    assert found["kqv.weight"].references == ("k.weight", "q.weight", "v.weight")


def test_a_packing_that_is_known_better_is_used() -> None:
    split = modules(q=linear(16, 16), k=linear(16, 16), v=linear(16, 16))
    per_head = {"qkv.weight": Packing(4, ("q", "k", "v")), "qkv.bias": Packing(4, ("q", "k", "v"))}
    found = pair(modules(qkv=linear(16, 48)), split, packings=per_head)
    assert found["qkv.weight"].how == "q, k, v taken per head: 4 times 4 + 4 + 4 rows"
    assert "q, k, v in 4 groups" in found["qkv.weight"].why


def test_grouped_heads_divide_a_fused_projection_by_their_numbers() -> None:
    sizes = {"num_heads": 4, "num_kv_heads": 2, "head_dim": 4}
    fused = build([("qkv", linear(16, 32), ())], **sizes)[0]
    split = modules(q=linear(16, 16), k=linear(16, 8), v=linear(16, 8))
    found = pair(split, fused)
    assert [one.how for one in found if one.candidate.endswith("weight")] == [
        "rows [0:16]",
        "rows [16:24]",
        "rows [24:32]",
    ]


def test_torchs_attention_meets_one_of_ones_own_in_both_directions() -> None:
    torch.manual_seed(0)
    theirs = nn.MultiheadAttention(16, 4, kdim=12, vdim=10, batch_first=True)
    own = modules(W_q=linear(16, 16), W_k=linear(12, 16), W_v=linear(10, 16), fc_out=linear(16, 16))
    found = pair(own, theirs)
    found.apply()
    assert torch.equal(own.get_parameter("W_k.weight"), theirs.k_proj_weight)
    assert torch.equal(own.get_parameter("W_k.bias"), theirs.in_proj_bias[16:32])
    other = nn.MultiheadAttention(16, 4, kdim=12, vdim=10, batch_first=True)
    pair(other, own, "copy").apply()
    for (name, left), right in zip(theirs.named_parameters(), other.parameters(), strict=True):
        assert torch.equal(left, right), name


def test_a_bias_that_the_reference_lacks_in_part_is_zero_there() -> None:
    reference = modules(
        q_proj=linear(16, 16), k_proj=linear(16, 16, bias=False), v_proj=linear(16, 16)
    )
    found = pair(modules(qkv=linear(16, 48)), reference)
    assert found["qkv.bias"].how == "concatenation of q_proj, v_proj, zeros where it has none"
    assert not found.value("qkv.bias")[16:32].any()


def test_cross_attention_is_told_from_self_attention() -> None:
    torch.manual_seed(0)
    reference = nn.TransformerDecoder(nn.TransformerDecoderLayer(16, 4, 24), 2)
    entries: list[Entry] = []
    for i in range(2):
        for zone, other in (("attn", "self_attn"), ("cross_attn", "multihead_attn")):
            fused = (f"layers.{i}.{other}.in_proj_{{leaf}}",)
            entries += [(f"blocks.{i}.{zone}.to_{p}", linear(16, 16), fused) for p in "qkv"]
            out = (f"layers.{i}.{other}.out_proj.{{leaf}}",)
            entries.append((f"blocks.{i}.{zone}.to_out.0", linear(16, 16), out))
        entries += [
            (f"blocks.{i}.ff.0", linear(16, 24), (f"layers.{i}.linear1.{{leaf}}",)),
            (f"blocks.{i}.ff.3", linear(24, 16), (f"layers.{i}.linear2.{{leaf}}",)),
        ]
        entries += [
            (f"blocks.{i}.norms.{j}", nn.LayerNorm(16), (f"layers.{i}.norm{j + 1}.{{leaf}}",))
            for j in range(3)
        ]
    candidate, expected = build(entries)
    found = pair(shuffle(candidate, 1), shuffle(reference, 2))
    assert {one.candidate: list(one.references) for one in found} == expected


class Columns(nn.Module):
    """Raw square matrices, used as x @ W."""

    def __init__(self) -> None:
        super().__init__()
        self.W_q, self.W_k, self.W_v = (nn.Parameter(torch.randn(16, 16)) for _ in range(3))

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        return x @ self.W_q, x @ self.W_k, torch.matmul(x, self.W_v)


class Rows(Columns):
    """The same, used as nn.Linear does."""

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        return F.linear(x, self.W_q), x @ self.W_k.T, F.linear(x, self.W_v)


class Silent(Columns):
    """The same, used in a way that no code shows."""

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        return tuple(torch.einsum("btw,wd->btd", x, weight) for weight in self.parameters())


@pytest.mark.parametrize(
    ("kind", "how"), [(Columns, "transposed"), (Rows, "whole"), (Silent, "whole")]
)
def test_a_square_matrix_is_turned_only_where_its_use_says_so(
    kind: type[nn.Module], how: str
) -> None:
    found = pair(kind(), qkv("{}_proj", bias=False))
    assert [one.how for one in found] == [how] * 3


def test_conv1d_against_linear_is_turned_even_when_square() -> None:
    hugging = pytest.importorskip("transformers.pytorch_utils", reason="the extra hf is missing")
    reference = modules(c_attn=hugging.Conv1D(48, 16), c_proj=hugging.Conv1D(16, 16))
    candidate = modules(c_attn=linear(16, 48), c_proj=linear(16, 16))
    for mine, theirs in ((candidate, reference), (reference, candidate)):
        found = pair(mine, theirs, "copy")
        assert {one.how for one in found if one.candidate.endswith("weight")} == {"transposed"}
        assert {one.how for one in found if one.candidate.endswith("bias")} == {"whole"}


def test_frozen_tables_of_positions_stay_the_modules_own() -> None:
    reference = modules(wte=nn.Embedding(12, 8), wpe=nn.Embedding(6, 8))
    candidate = modules(tok=nn.Embedding(12, 8), pos=nn.Embedding(6, 8))
    candidate.get_parameter("pos.weight").requires_grad = False
    found = pair(candidate, reference)
    assert found["pos.weight"].proof == "differs"
    assert found["tok.weight"].proof == "copied"
    assert "frozen" in found["pos.weight"].note


def test_buffers_that_a_module_makes_are_no_weights_and_running_statistics_are() -> None:
    candidate, reference = (modules(norm=nn.BatchNorm1d(8), fc1=linear(8, 8)) for _ in range(2))
    for module, seed in ((candidate, 1), (reference, 2)):
        shuffle(module, seed)
        module.register_buffer("mask", torch.ones(4, 4).tril())
        module.register_buffer("table", torch.randn(4, 4))
        module.get_buffer("norm.running_mean").fill_(seed)
    found = pair(candidate, reference)
    assert found["norm.running_mean"].proof == "copied"
    assert {(left.side, left.name) for left in found.left} == {
        ("candidate", "table"),
        ("reference", "table"),
    }


def test_parameters_that_change_nothing_need_no_counterpart() -> None:
    candidate, reference = qkv("{}_proj", bias=False), qkv("W_{}")
    for name, parameter in reference.named_parameters():
        if name.endswith("bias"):
            nn.init.zeros_(parameter)
    found = pair(candidate, reference)
    assert {left.why for left in found.left} == {"a bias of zeros"}
    back = pair(reference, candidate)
    assert {left.why for left in back.left} == {"a bias of zeros"}


class Half(nn.Module):
    """A model with a pooler that its output does not use."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1 = nn.Linear(8, 8)
        self.pooler = nn.Linear(8, 5)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        return {"hidden": self.fc1(x)}


def test_parameters_that_take_no_part_need_no_counterpart_and_are_said() -> None:
    candidate, reference = modules(fc1=linear(8, 8)), Half()
    with pytest.raises(InputError, match="pooler"):
        pair(candidate, reference)
    idle = idle_parameters(reference, reference(torch.ones(2, 8)))
    assert idle == {"pooler.weight", "pooler.bias"}
    found = pair(candidate, reference, idle=((), idle))
    assert {left.why for left in found.left} == {"takes no part in the output"}
    both = pair(Half(), reference, idle=(idle, idle))
    assert "takes no part in the candidate's and the reference's output" in str(both)


# errors


def test_what_is_unpaired_is_an_error_with_both_sides_and_what_to_write() -> None:
    candidate = modules(fc1=linear(8, 8), extra=linear(8, 7, bias=False))
    reference = modules(fc1=linear(8, 8), other=linear(8, 6, bias=False))
    with pytest.raises(InputError) as caught:
        pair(candidate, reference)
    error = caught.value
    assert error.doing == "pairing the weights"
    assert error.found == (
        "the candidate's extra.weight (7, 8) and the reference's other.weight (6, 8) found no"
        " counterpart (nearest: extra.weight from other.weight)"
    )
    assert error.todo.startswith('say it with map={"extra.weight": "other.weight"')
    assert 'weights="keep"' in error.todo
    loose = pair(candidate, reference, strict=False)
    assert [(left.side, left.name) for left in loose.unpaired] == [
        ("candidate", "extra.weight"),
        ("reference", "other.weight"),
    ]
    assert len(pair(candidate, reference, "keep").unpaired) == 2


def test_two_of_one_shape_that_no_name_tells_apart_are_ambiguous() -> None:
    candidate = modules(alpha=linear(8, 8, bias=False), gamma_map=linear(8, 8, bias=False))
    reference = modules(one=linear(8, 8, bias=False))
    with pytest.raises(InputError, match="alpha"):
        pair(candidate, reference)


def test_the_same_number_of_layers_is_needed() -> None:
    layer = nn.TransformerEncoderLayer(16, 4, 24, batch_first=True)
    deep, flat = (nn.TransformerEncoder(layer, n, enable_nested_tensor=False) for n in (3, 2))
    with pytest.raises(InputError, match=r"layers\.2\.self_attn"):
        pair(shuffle(flat, 1), shuffle(deep, 2))


def test_what_one_side_ties_and_the_other_holds_apart_with_other_values_is_an_error() -> None:
    def model(*, tied: bool) -> nn.Module:
        embed, head = nn.Embedding(12, 8), linear(8, 12, bias=False)
        if tied:
            head.weight = embed.weight
        return modules(embed=embed, lm_head=head)

    with pytest.raises(InputError, match=r"the candidate ties embed\.weight and lm_head\.weight"):
        pair(model(tied=True), model(tied=False))
    assert len(pair(model(tied=False), model(tied=True))) == 2


@pytest.mark.parametrize(
    "module", [arrangement, idle, weightmap, words, weights, conditions], ids=lambda m: m.__name__
)
def test_the_examples_in_the_code_run(module: ModuleType) -> None:
    with torch.random.fork_rng():
        result = doctest.testmod(module)
    assert result.attempted
    assert not result.failed
