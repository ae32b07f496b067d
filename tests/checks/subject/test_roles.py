"""What inputs are: axes and roles by signature, names, sizes, code, words and declarations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attnscope.checks.subject.subject import Subject
from attnscope.targets.architectures import build
from tests.checks.small import noise


def ids(*shape: int) -> Tensor:
    return torch.randint(1, 9, shape, generator=torch.Generator().manual_seed(0))


@dataclass(frozen=True)
class Case:
    """A forward, its inputs; (name, kind, batch axis, sequence axis, certain) of its streams."""

    run: Callable[..., Any]
    inputs: Any
    streams: tuple[tuple[str, str, int | None, int | None, bool], ...]
    expect: dict[str, Any] | None = None


def takes_ids(input_ids: Tensor) -> None: ...


def takes_x(x: Tensor) -> None: ...


def with_mask(x: Tensor, padding_mask: Tensor) -> None: ...


def unpacks_batch_first(x: Tensor) -> Any:
    b, t, c = x.shape
    return b, t, c


def unpacks_time_first(x: Tensor) -> Any:
    T, N, C = x.size()  # noqa: N806  as people write it
    return T, N, C


def unpacks_what_it_turned(x: Tensor) -> Any:
    x = x.transpose(0, 1)
    n, bsz, c = x.shape
    return n, bsz, c


def documented(series: Tensor) -> None:
    """Forecast from series: (time, batch, features)."""


def commented(
    x: Tensor,  # B x T x C
) -> None: ...


def speaks_of_heads(x: Tensor) -> None:
    """Attend within x, with (heads, batch) in one axis."""


def speaks_of_another_order(x: Tensor) -> Tensor:
    x = x.transpose(0, 1)  # x is (T, B, C) from here on
    return x * 2


def contradicts_itself(x: Tensor) -> None:
    """Attend within x: (T, B, C).

    x: (B, T, C)
    """


def table_of_tokens(x: Tensor) -> Any:
    tokens, width = x.shape
    return tokens, width


def takes_patches(patches: Tensor, grid_thw: Tensor) -> None: ...


def takes_rows(rows: Tensor, bounds: Tensor) -> None: ...


def attends(q: Tensor, k: Tensor, v: Tensor) -> None: ...


def crosses(query: Tensor, memory: Tensor) -> None: ...


def translates(src: Tensor, tgt: Tensor) -> None: ...


def renders(source: Tensor, target: Tensor) -> None: ...


def learns(x: Tensor, target: Tensor) -> None: ...


CASES = {
    "ids": Case(takes_ids, ids(3, 7), (("input_ids", "ids", 0, 1, False),)),
    "ids of one sample": Case(takes_ids, ids(7), (("input_ids", "ids", None, 0, False),)),
    "ids of tables": Case(takes_ids, ids(3, 5, 4), (("input_ids", "ids", 0, None, False),)),
    "features": Case(takes_x, noise(3, 7, 8), (("x", "features", 0, 1, False),)),
    "as many samples as tokens": Case(takes_x, noise(5, 5, 8), (("x", "features", 0, 1, False),)),
    "one sample": Case(takes_x, noise(1, 7, 8), (("x", "features", 0, 1, False),)),
    "one token": Case(takes_x, noise(3, 1, 8), (("x", "features", 0, 1, False),)),
    "pictures": Case(takes_x, noise(2, 3, 8, 8), (("x", "image", 0, None, True),)),
    "video": Case(takes_x, noise(2, 3, 4, 8, 8), (("x", "image", 0, None, False),)),
    "table": Case(takes_x, noise(4, 8), (("x", "image", 0, None, False),)),
    "patches, and grids that count them": Case(
        takes_patches,
        {"patches": noise(14, 3, 4, 4), "grid_thw": torch.tensor([[1, 2, 4], [1, 2, 3]])},
        (("patches", "image", None, 0, True),),
    ),
    "rows, and bounds that count them": Case(
        takes_rows,
        {"rows": noise(9, 8), "bounds": torch.tensor([0, 4, 9], dtype=torch.int32)},
        (("rows", "features", None, 0, True),),
    ),
    "a table, and whole numbers that count something else": Case(
        takes_rows,
        {"rows": noise(9, 8), "bounds": torch.tensor([0, 4, 8], dtype=torch.int32)},
        (("rows", "image", 0, None, False),),
    ),
    "code, batch first": Case(
        unpacks_batch_first, noise(3, 7, 8), (("x", "features", 0, 1, True),)
    ),
    "code, time first": Case(unpacks_time_first, noise(7, 3, 8), (("x", "features", 1, 0, True),)),
    "code, after it was turned": Case(
        unpacks_what_it_turned, noise(3, 7, 8), (("x", "features", 0, 1, False),)
    ),
    "table of tokens": Case(table_of_tokens, noise(7, 8), (("x", "features", None, 0, True),)),
    "a mask of whole numbers": Case(
        crosses,
        {"query": noise(2, 5, 8), "memory": torch.ones(5, 5).tril().long()},
        (("query", "features", 0, 1, False),),
    ),
    "docstring": Case(documented, noise(7, 3, 8), (("series", "features", 1, 0, True),)),
    "comment": Case(commented, noise(3, 7, 8), (("x", "features", 0, 1, True),)),
    "words about another tensor": Case(
        speaks_of_heads, noise(3, 7, 8), (("x", "features", 0, 1, False),)
    ),
    "a comment on what was assigned": Case(
        speaks_of_another_order, noise(3, 7, 8), (("x", "features", 0, 1, False),)
    ),
    "comments that disagree": Case(
        contradicts_itself, noise(3, 7, 8), (("x", "features", 0, 1, False),)
    ),
    "declared batch": Case(
        takes_x, noise(7, 3, 8), (("x", "features", 1, 0, True),), {"batch_axis": 1}
    ),
    "declared sequence": Case(
        takes_x, noise(7, 3, 8), (("x", "features", 1, 0, True),), {"sequence_axis": 0}
    ),
    "mask turns it": Case(
        with_mask, (noise(7, 3, 8), torch.ones(3, 7).bool()), (("x", "features", 1, 0, True),)
    ),
    "q, k, v": Case(
        attends,
        (noise(2, 4, 7, 8), noise(2, 4, 9, 8), noise(2, 4, 9, 8)),
        (("q", "heads", 0, 2, True), ("k", "heads", 0, 2, True), ("v", "heads", 0, 2, True)),
    ),
    "the kernel": Case(
        F.scaled_dot_product_attention,
        (noise(2, 4, 7, 8), noise(2, 4, 7, 8), noise(2, 4, 7, 8)),
        (
            ("args[0]", "heads", 0, 2, True),
            ("args[1]", "heads", 0, 2, True),
            ("args[2]", "heads", 0, 2, True),
        ),
    ),
    "memory": Case(
        crosses,
        (noise(2, 7, 8), noise(2, 9, 8)),
        (("query", "features", 0, 1, False), ("memory", "features", 0, 1, False)),
    ),
    "encoder and decoder": Case(
        translates,
        (ids(2, 9), ids(2, 7)),
        (("tgt", "ids", 0, 1, False), ("src", "ids", 0, 1, False)),
    ),
    "memory in another layout": Case(
        crosses,
        {"query": ids(2, 7), "memory": noise(9, 2, 8)},
        (("query", "ids", 0, 1, False), ("memory", "features", 1, 0, True)),
    ),
    "layer of torch, time first": Case(
        nn.MultiheadAttention(8, 2), (noise(7, 3, 8),) * 3, (("query", "features", 1, 0, True),)
    ),
    "layer of torch, batch first": Case(
        nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, batch_first=True), 1),
        noise(3, 7, 8),
        (("src", "features", 0, 1, True),),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_streams(name: str) -> None:
    case = CASES[name]
    roles = Subject(case.run, case.inputs, case.expect).roles
    found = tuple((s.name, s.kind, s.batch_axis, s.sequence_axis, s.certain) for s in roles.streams)
    assert found == case.streams


def test_what_is_assumed_is_said_with_how_to_declare_it() -> None:
    assert "declare expect batch_axis" in Subject(takes_x, noise(3, 7, 8)).roles.notes[0]
    assert not Subject(unpacks_batch_first, noise(3, 7, 8)).roles.notes


def everything(
    x: Tensor,
    attention_mask: Tensor | None = None,
    position_ids: Tensor | None = None,
    document_ids: Tensor | None = None,
    past_key_values: Any = None,
    labels: Tensor | None = None,
) -> None: ...


def test_other_inputs_have_their_roles_and_axes() -> None:
    given = {
        "x": noise(3, 7, 8),
        "attention_mask": torch.ones(3, 1, 7, 7).bool(),
        "position_ids": torch.arange(7).expand(3, 7),
        "document_ids": torch.zeros(3, 7, dtype=torch.long),
        "labels": ids(3, 7),
    }
    roles = Subject(everything, given).roles
    assert [s.name for s in roles.streams] == ["x"]
    assert (roles.positions, roles.documents, roles.cache) == (
        "position_ids",
        "document_ids",
        "past_key_values",
    )
    assert roles.masks == ("attention_mask",)
    assert dict(roles.batch_axes) == dict.fromkeys(given, 0)
    assert dict(roles.length_axes["attention_mask"]) == {2: "x", 3: "x"}
    assert dict(roles.length_axes["labels"]) == {1: "x"}


def test_a_batch_that_is_a_dict_means_what_its_entries_mean() -> None:
    def forward(batch: dict[str, Tensor]) -> None:
        del batch

    inputs = ({"input_ids": ids(3, 7), "attention_mask": torch.ones(3, 7).long()},)
    roles = Subject(forward, inputs).roles
    assert [s.name for s in roles.streams] == ["input_ids"]
    assert roles.masks == ("attention_mask",)


@pytest.mark.parametrize("name", ["bert", "gpt2", "t5"])
def test_models_of_hugging_face_are_batch_first(name: str) -> None:
    built = build(name)
    main = Subject(built.model, built.inputs).roles.main
    assert main is not None
    assert (main.kind, main.batch_axis, main.sequence_axis, main.certain) == ("ids", 0, 1, True)


def test_a_decoder_is_asked_for_before_its_encoder() -> None:
    roles = Subject(translates, (ids(2, 9), ids(2, 7))).roles
    assert roles.main is not None
    assert roles.memory is not None
    assert (roles.main.name, roles.memory.name) == ("tgt", "src")


def test_a_target_is_a_label_unless_a_source_goes_with_it() -> None:
    decoded = Subject(renders, {"source": ids(2, 5), "target": ids(2, 5)})
    assert [each.name for each in decoded.roles.streams] == ["target", "source"]
    learned = Subject(learns, {"x": ids(2, 5), "target": ids(2, 5)})
    assert [each.name for each in learned.roles.streams] == ["x"]


class AtomsAndDegrees(nn.Module):
    """Atom 0 is padding; degree 0 is a degree like others."""

    def __init__(self) -> None:
        super().__init__()
        self.atom, self.degree = nn.Embedding(9, 8, padding_idx=0), nn.Embedding(5, 8)

    def forward(self, atoms: Tensor, degrees: Tensor) -> Tensor:
        return self.atom(atoms) + self.degree(degrees)  # type: ignore[no-any-return]


def test_the_padding_id_of_a_table_is_that_of_the_ids_that_go_to_it() -> None:
    atoms, degrees = torch.tensor([[3, 5, 2, 0], [4, 1, 0, 0]]), torch.tensor([[0, 3, 1, 2]] * 2)
    roles = Subject(AtomsAndDegrees().eval(), {"atoms": atoms, "degrees": degrees}).roles
    assert [each.name for each in roles.padding] == ["atoms"]
