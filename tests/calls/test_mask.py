from __future__ import annotations

import time

import pytest
import torch
from torch import Tensor

from attnscope.calls.mask import Alignment, Mask
from attnscope.errors import InputError

SEGMENTS = torch.tensor([0, 0, 0, 1, 1, 2])
SAME = SEGMENTS[:, None] == SEGMENTS


def place(queries: int, keys: int) -> tuple[Tensor, Tensor]:
    return torch.arange(queries)[:, None], torch.arange(keys)


Q, K = place(6, 6)
CAUSAL = K <= Q
RIGHT = torch.arange(6) < torch.tensor([6, 4, 5])[:, None, None, None]
LEFT = RIGHT.flip(-1)
SCATTERED = torch.tensor([True, False, True, True, False, True]).expand(2, 1, 1, 6)
SHORT_Q, LONG_K = place(3, 7)


def checked(visible: Tensor, queries: int | None = None) -> Mask:
    """Return the mask of a tensor, after proving that it hides the same entries."""
    mask = Mask.from_tensor(visible, queries)
    assert mask.sizes is not None
    full = visible.expand(*visible.shape[:-2], *mask.sizes)
    built = mask.dense(*mask.sizes)
    assert torch.equal(*torch.broadcast_tensors(built, full))
    assert mask.visible == pytest.approx(full.double().mean().item(), abs=1e-12)
    return mask


@pytest.mark.parametrize(
    ("visible", "kind"),
    [
        (torch.ones(6, 6, dtype=torch.bool), "none"),
        (CAUSAL, "causal"),
        (CAUSAL & RIGHT, "causal+padding"),
        (CAUSAL & LEFT, "causal+padding"),
        (CAUSAL & LEFT & LEFT.mT, "causal+padding"),
        (RIGHT & RIGHT.mT, "padding"),
        (SCATTERED.expand(2, 1, 6, 6), "padding"),
        ((Q - K).abs() < 3, "window"),
        ((K <= Q + 1) & (K > Q - 3), "window"),
        (CAUSAL & (Q - K < 3), "causal+window"),
        (CAUSAL & (Q - K < 3) & LEFT, "causal+window+padding"),
        (SAME, "documents"),
        (SAME & CAUSAL, "causal+documents"),
        (SAME & CAUSAL & (Q - K < 2), "causal+window+documents"),
        (SAME & RIGHT, "documents+padding"),
        (SAME & CAUSAL & RIGHT, "causal+documents+padding"),
        (CAUSAL | (K < 3), "prefix"),
        ((CAUSAL | (K < 4)) & LEFT, "prefix+padding"),
        (K <= Q + 1, "custom"),
        (K < Q, "custom"),
        ((Q % 2) == (K % 2), "custom"),
        (torch.zeros(6, 6, dtype=torch.bool), "padding"),
        (LONG_K <= SHORT_Q, "causal"),
        (LONG_K <= SHORT_Q + 4, "causal-bottom-right"),
        (LONG_K <= SHORT_Q + 2, "causal"),
        ((LONG_K <= SHORT_Q + 4) & (LONG_K > SHORT_Q + 1), "causal-bottom-right+window"),
        (torch.ones(1, 9, dtype=torch.bool), "none"),
        (torch.arange(9)[None] < 1, "causal"),
        (torch.arange(9)[None] < 4, "padding"),
        (torch.arange(9)[None] >= 5, "window"),
        ((torch.arange(9) >= torch.tensor([[0], [5]]))[:, None, None], "padding"),
    ],
)
def test_a_mask_is_named_by_the_simplest_rule_that_builds_it(visible: Tensor, kind: str) -> None:
    assert checked(visible).kind == kind


def test_the_keys_of_a_padding_mask_are_all_that_is_kept() -> None:
    mask = checked(CAUSAL & LEFT.expand(3, 8, 6, 6))
    assert mask.causal == "top-left"
    assert mask.tensor is not None
    assert mask.tensor.shape == (3, 1, 1, 6)


def test_a_row_for_all_queries_is_padding_and_not_one_query() -> None:
    assert checked((torch.arange(6) >= 2)[None, None, None], queries=6).kind == "padding"
    assert checked((torch.arange(6) >= 2)[None, None, None]).kind == "window"


def test_shifted_windows_of_an_image_are_no_documents() -> None:
    regions = torch.tensor([0, 1, 0, 1])  # a window of 2x2 cut along one side
    visible = torch.stack([torch.ones(4, 4, dtype=torch.bool), regions[:, None] == regions])
    assert checked(visible[:, None]).kind == "custom"


def test_heads_with_different_windows_have_no_common_rule() -> None:
    windows = torch.stack([CAUSAL & (Q - K < 2), CAUSAL & (Q - K < 4)])[None]
    assert checked(windows).kind == "custom"


def test_a_long_mask_is_named_at_once() -> None:
    q, k = place(2048, 2048)
    lengths = torch.tensor([1500, 2048])[:, None, None, None]
    visible = ((k <= q) & (q - k < 100) & (k < lengths)).expand(2, 12, 2048, 2048)
    start = time.perf_counter()
    mask = Mask.from_tensor(visible)
    assert time.perf_counter() - start < 5
    assert (mask.kind, mask.window) == ("causal+window+padding", 100)
    assert mask.tensor is not None
    assert mask.tensor.numel() == 2 * 2048


def test_blocks_of_rows_are_those_of_the_whole() -> None:
    mask = Mask.causal_mask("bottom-right", 5, 9, window=3)
    whole = mask.dense(5, 9)
    assert torch.equal(mask.rows(2, 4, 5, 9, "cpu"), whole[..., 2:4, :])
    assert mask.visible == whole.double().mean().item()


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        (("top-left", (4, 4), None), "causal"),
        (("bottom-right", (4, 4), None), "causal"),
        (("bottom-right", (4, 6), None), "causal-bottom-right"),
        (("top-left", (4, 6), None), "causal"),
        (("bottom-right", (1, 6), None), "none"),
        (("bottom-right", (1, 6), 3), "window"),
        (("top-left", (4, 4), 9), "causal"),
        (("top-left", (4, 4), 2), "causal+window"),
    ],
)
def test_causal_masks_are_named_by_what_they_hide(
    arguments: tuple[Alignment, tuple[int, int], int | None], kind: str
) -> None:
    alignment, (queries, keys), window = arguments
    mask = Mask.causal_mask(alignment, queries, keys, window)
    assert mask.kind == kind
    assert Mask.from_tensor(mask.dense(queries, keys)).kind == kind


def test_masks_combine_and_stay_small() -> None:
    both = Mask.causal_mask("top-left", 6, 6) & Mask.from_tensor(LEFT, queries=6)
    assert both.kind == "causal+padding"
    assert both.visible == (CAUSAL & LEFT).double().mean().item()
    assert both.tensor is not None
    assert both.tensor.shape == (3, 1, 1, 6)
    assert (both & Mask.nothing()).kind == both.kind
    assert both.to_json() == {"kind": "causal+padding", "visible": both.visible}


def test_masks_of_different_corners_combine_exactly() -> None:
    one = Mask.causal_mask("top-left", 3, 7)
    other = Mask.causal_mask("bottom-right", 3, 7, window=6)
    assert torch.equal((one & other).dense(3, 7), one.dense(3, 7) & other.dense(3, 7))


def test_masks_of_different_sizes_do_not_combine() -> None:
    with pytest.raises(InputError, match=r"\(6, 6\) and \(5, 5\).*same queries and keys"):
        _ = Mask.causal_mask("top-left", 6, 6) & Mask.causal_mask("top-left", 5, 5)


def test_a_mask_has_to_be_boolean() -> None:
    with pytest.raises(InputError, match=r"torch.float32 .*True = may attend"):
        Mask.from_tensor(torch.zeros(3, 3))
