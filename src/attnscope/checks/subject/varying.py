"""Other inputs of the same kind: some tokens changed, samples alone or among others.

Nothing here draws from the global random state.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from attnscope.checks.rule import Skipped
from attnscope.checks.subject.given import Given
from attnscope.checks.subject.roles import Stream
from attnscope.checks.subject.subject import Subject
from attnscope.checks.unreadable import UNREADABLE

__all__ = ["alone", "along", "other_tokens", "rows_of", "vocabulary", "with_other_sample"]


def other_tokens(
    subject: Subject, stream: Stream, where: Tensor, given: Given | None = None, seed: int = 1
) -> Given:
    """Return inputs in which the tokens of a stream are others, where `where` is True.

    where: boolean, (batch, length). Ids become other ids of the vocabulary (never the padding id),
    features become random numbers of the same mean and spread.
    """
    given = given or subject.given
    tokens = given.values[stream.name]
    generator = torch.Generator().manual_seed(subject.seed + seed)
    fresh = (
        _other_ids(subject, stream, tokens, generator)
        if stream.kind == "ids"
        else _other_features(tokens, generator)
    )
    changed = torch.where(spread(where, stream, tokens), fresh, tokens)
    return given.replaced(stream.name, changed)


def spread(where: Tensor, stream: Stream, like: Tensor) -> Tensor:
    """Return (batch, length) as a mask that broadcasts over the tensor of a stream."""
    shape = [1] * like.dim()
    if stream.batch_axis is None:
        shape[stream.sequence_axis or 0] = where.shape[-1]
        return where[0].to(like.device).view(shape)
    if stream.sequence_axis is None:
        shape[stream.batch_axis] = where.shape[0]
        return where[:, 0].to(like.device).view(shape)
    ordered = where if stream.batch_axis < stream.sequence_axis else where.mT
    shape[stream.batch_axis], shape[stream.sequence_axis] = where.shape
    return ordered.to(like.device).reshape(shape)


def vocabulary(subject: Subject, stream: Stream) -> int:
    """Return how many token ids there are: rows of the embedding that the ids go to."""
    value = subject.input_value(stream.name)
    ids = subject.given.values[stream.name]
    largest = int(ids.max()) + 1 if ids.numel() else 1
    for operation in subject.base.tape.users.get(value, []) if value is not None else []:
        if operation.name == "embedding":
            tables = [subject.base.tape.tensors[v] for v in operation.values() if v != value]
            return max([largest, *(int(t.shape[0]) for t in tables if t.dim() == 2)])
    return largest


def _other_ids(subject: Subject, stream: Stream, ids: Tensor, generator: torch.Generator) -> Tensor:
    """Return for each id another one; one of those that occur where the vocabulary isn't known."""
    padding = subject.roles.padding_of(stream)
    barred = {padding.pad_id} if padding is not None else set()
    choice = [each for each in range(vocabulary(subject, stream)) if each not in barred]
    if len(choice) < 2:
        raise Skipped(f"{stream.name} has no other token ids to put in: give inputs with more")
    table = torch.tensor(choice, dtype=ids.dtype, device=ids.device)
    at = torch.randint(len(choice), ids.shape, generator=generator).to(ids.device)
    drawn = table[at]
    return torch.where(drawn == ids, table[(at + 1) % len(choice)], drawn)


def _other_features(features: Tensor, generator: torch.Generator) -> Tensor:
    """Return random numbers of the mean and spread of some features."""
    flat = features.detach().float()
    spread_of = float(flat.std()) if flat.numel() > 1 else 1.0
    made = torch.randn(features.shape, generator=generator)
    made = made * (spread_of or 1.0) + float(flat.mean())
    return made.to(features.device, features.dtype)


def with_other_sample(subject: Subject, sample: int) -> Given:
    """Return inputs in which every token of one sample is another one, in all sequences."""
    given, main = subject.given, subject.roles.main
    samples = main.batch(given) if main is not None else 1
    for stream in subject.roles.streams:
        if stream.batch_axis is None or stream.batch(given) != samples:
            continue  # shared by all samples
        where = torch.zeros(stream.batch(given), max(stream.length(given), 1), dtype=torch.bool)
        where[sample] = True
        given = other_tokens(subject, stream, where, given)
    return given


def rows_of(subject: Subject, change: Callable[[Tensor, int], Tensor], given: Given) -> Given:
    """Return inputs with `change(tensor, batch_axis)` for everything that has one row a sample."""
    axes = subject.roles.batch_axes

    def rows(name: str, tensor: Tensor) -> Tensor:
        return change(tensor, axes[name]) if name in axes else tensor

    return given.mapped(rows)


def alone(subject: Subject, sample: int, given: Given | None = None) -> Given:
    """Return the inputs of one sample, as a batch of one."""
    return rows_of(
        subject, lambda t, axis: t.narrow(axis, sample, 1).clone(), given or subject.given
    )


def along(
    subject: Subject, output: Tensor, stream: Stream | None = None
) -> tuple[int | None, int | None]:
    """Return the axes of an output that run over samples and over the tokens of a stream.

    The output's axes are those of the stream where their sizes agree, else axes of these sizes.
    """
    stream = stream or subject.roles.main
    if stream is None:
        return None, None
    batch, length = stream.batch(subject.given), stream.length(subject.given)
    samples, tokens = stream.batch_axis, stream.sequence_axis
    if stream.kind == "heads":
        samples, tokens = 0, output.dim() - 2
    own_batch = _axis(output, samples, batch, taken=None)
    own_tokens = _axis(output, tokens, length, taken=own_batch) if length else None
    if own_tokens is not None and output.dim() == 2 and output is subject.output:
        pooled = subject.once(("pooled", stream.name), lambda: _is_pooled(subject, stream))
        return own_batch, None if pooled else own_tokens
    return own_batch, own_tokens


def _is_pooled(subject: Subject, stream: Stream) -> bool:
    """Return whether an output has features in that number: with a token less it is as large."""
    axes, count = subject.roles.length_axes, stream.length(subject.given) - 1

    def without_last(name: str, tensor: Tensor) -> Tensor:
        for axis, other in axes.get(name, {}).items():
            if other == stream.name:
                tensor = tensor.narrow(axis, 0, count)
        return tensor

    if count < 1:
        return False
    try:
        shorter = subject.main_output(subject.given.mapped(without_last))
    except UNREADABLE:
        return False
    return shorter.shape == subject.output.shape


def _axis(output: Tensor, usual: int | None, size: int, taken: int | None) -> int | None:
    if usual is None:
        return None
    if usual < output.dim() and output.shape[usual] == size and usual != taken:
        return usual
    fits = [a for a in range(output.dim()) if output.shape[a] == size and a != taken]
    return fits[0] if fits else None
