"""AS106: tokens where a kernel expects heads, and strides that it can't take."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from attnscope.errors import TargetError
from tests.checks.small import SelfAttention, checked, line_of, noise, the_finding


class Kernel(SelfAttention):
    def attend(self, x: Tensor) -> Any:
        q, k, v = (self.split(part) for part in self.qkv(x).chunk(3, -1))
        return self.out(self.merge(self.kernel(q, k, v)))

    def kernel(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v)


class HeadsThird(Kernel):
    def split(self, x: Tensor) -> Any:
        return x.unflatten(-1, (self.heads, -1))

    def merge(self, context: Tensor) -> Tensor:
        return context.flatten(2)


class HeadsThirdByHand(SelfAttention):
    def split(self, x: Tensor) -> Any:
        return x.unflatten(-1, (self.heads, -1))

    def merge(self, context: Tensor) -> Tensor:
        return context.flatten(2)


class HeadsFromUnbind(HeadsThird):
    def attend(self, x: Tensor) -> Any:
        b, t, _ = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, -1).unbind(2)
        return self.out(self.merge(self.kernel(q, k, v)))


X = noise(2, 5, 16)


@pytest.mark.parametrize("model", [HeadsThird(), HeadsFromUnbind()])
def test_heads_that_are_given_as_tokens_are_found_at_the_call(model: nn.Module) -> None:
    finding = the_finding(checked(model, X, "AS106"))
    assert (finding.code, finding.severity) == ("AS106", "error")
    assert "scaled_dot_product_attention(q, k, v)" in line_of(finding)
    assert finding.evidence["tokens"] == 5
    assert finding.evidence["keys"] == 2


def test_by_hand_it_is_found_where_the_heads_were_split() -> None:
    finding = the_finding(checked(HeadsThirdByHand(), X, "AS106"))
    assert "unflatten" in line_of(finding)


@pytest.mark.parametrize("model", [Kernel(), SelfAttention(), SelfAttention(heads=1)])
def test_sound_layouts_are_silent(model: nn.Module) -> None:
    assert not checked(model, X, "AS106").findings


@pytest.mark.parametrize("shape", [(2, 1, 16), (1, 1, 16)])
def test_with_one_token_nothing_can_be_told(shape: tuple[int, ...]) -> None:
    assert not checked(HeadsThird(), noise(*shape), "AS106").findings


class OneFeature(Kernel):
    """Heads of one feature, whose memory contiguous() leaves as it is."""

    def attend(self, x: Tensor) -> Tensor:
        b, t, h = x.shape
        q = x.transpose(1, 2).contiguous().view(b, h, 1, t).transpose(-1, -2)
        k = v = x.transpose(1, 2)[..., None].contiguous()
        return self.kernel(self.dense(q), k, v).squeeze(-1).transpose(1, 2)

    def dense(self, q: Tensor) -> Tensor:
        return q.contiguous()

    def kernel(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            return F.scaled_dot_product_attention(q, k, v)


class OneDenseFeature(OneFeature):
    def dense(self, q: Tensor) -> Tensor:
        return q.clone(memory_format=torch.contiguous_format)


class AnyKernel(OneFeature):
    def kernel(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v)


@pytest.mark.filterwarnings("ignore::UserWarning")  # torch says why each kernel refuses
def test_strides_that_no_kernel_takes_explain_why_it_raised() -> None:
    finding = the_finding(checked(OneFeature(), noise(2, 9, 5), "AS106"))
    assert finding.evidence == {"operand": "query", "shape": [2, 5, 9, 1],
                                "strides": [45, 9, 1, 9]}  # fmt: skip
    assert "scaled_dot_product_attention" in line_of(finding)


@pytest.mark.parametrize("model", [OneDenseFeature(), AnyKernel()])
def test_dense_memory_and_other_kernels_do(model: nn.Module) -> None:
    assert not checked(model, noise(2, 9, 5), "AS106").findings


class Refused(Kernel):
    def kernel(self, q: Tensor, k: Tensor, v: Tensor) -> Any:
        super().kernel(q, k, v)
        raise RuntimeError("No available kernel. Aborting execution.")


def test_a_kernel_that_refuses_for_another_reason_is_not_explained() -> None:
    with pytest.raises(TargetError, match="No available kernel"):
        checked(Refused(), X, "AS106")
