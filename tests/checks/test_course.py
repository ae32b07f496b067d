"""The course of a call: which operation is the product, which the softmax, what hides keys."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attnscope.checks.course import Course, course_of, representatives
from attnscope.checks.subject.subject import Subject
from tests.checks.small import SelfAttention, noise


class Causal(SelfAttention):
    def attend(self, x: Tensor) -> Any:
        q, k, v = (self.split(part) for part in self.qkv(x).chunk(3, -1))
        scores = q @ k.transpose(-2, -1)
        scores = scores / math.sqrt(q.shape[-1])
        mask = torch.ones(x.shape[1], x.shape[1]).triu(1).bool()
        scores = scores.masked_fill(mask, -1e9)
        weights = scores.softmax(-1)
        return self.out(self.merge(weights @ v))


class Fused(SelfAttention):
    def attend(self, x: Tensor) -> Any:
        q, k, v = (self.split(part) for part in self.qkv(x).chunk(3, -1))
        return self.out(self.merge(F.scaled_dot_product_attention(q, k, v)))


def course(model: nn.Module) -> Course:
    subject = Subject(model, noise(2, 5, 16))
    found = course_of(subject, subject.calls[0])
    assert found is not None
    assert course_of(subject, subject.calls[0]) is found
    return found


def code(made: Any) -> str:
    assert made is not None
    assert made.source is not None
    return str(made.source.code)


def test_the_parts_of_attention_by_hand_have_their_lines() -> None:
    found = course(Causal())
    assert "q @ k.transpose" in code(found.product)
    assert "scores.softmax" in code(found.softmax)
    assert "weights @ v" in code(found.weighing)
    assert [code(each) for each in found.hiding] == ["scores = scores.masked_fill(mask, -1e9)"]
    assert [each.name for each in found.aside] == ["triu", "bool"]
    assert found.line(found.softmax).code == code(found.softmax)
    assert found.line(None) == found.call.source


def test_a_kernel_is_all_parts_at_once() -> None:
    found = course(Fused())
    assert found.product is found.softmax is found.weighing
    assert found.product is not None
    assert found.product.name == "scaled_dot_product_attention"
    assert found.hiding == ()


def test_the_layout_of_a_projection_is_told_from_its_end() -> None:
    names = [each.name for each in course(Causal()).layout_of("q")]
    assert names == ["transpose", "unflatten", "chunk"]


def test_what_joins_the_way_is_no_part_of_it() -> None:
    found = course(Causal())
    (hiding,) = found.hiding
    joined = found.joined(hiding)
    assert [found.tape.maker[value].name for value in joined] == ["bool"]


def test_layers_that_are_alike_are_looked_at_once() -> None:
    stacked = nn.Sequential(*(Causal() for _ in range(3)), Fused())
    subject = Subject(stacked, noise(2, 5, 16))
    assert len(subject.calls) == 4
    assert [each.call.index for each in representatives(subject)] == [0, 3]
