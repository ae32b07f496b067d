"""Operations that keep positions: functions of each element, normalisers, reductions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attnscope.capture.layout.algebra import Layout
from attnscope.capture.layout.operation import (
    UnfollowedError,
    as_integers,
    broadcast,
    counted,
    is_tensor,
)

if TYPE_CHECKING:
    from attnscope.capture.layout.operation import Operation


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_OPERATORS = _names("add sub mul truediv floordiv mod pow and or xor lshift rshift")

POINTWISE = frozenset(prefix + name for name in _OPERATORS for prefix in ("", "r", "i")) | _names(
    """
    subtract multiply div divide true_divide floor_divide remainder fmod rsub addcmul addcdiv lerp
    eq ne lt le gt ge isclose logical_and logical_or logical_xor logical_not
    bitwise_and bitwise_or bitwise_xor bitwise_not bitwise_left_shift bitwise_right_shift invert
    maximum minimum fmax fmin clamp clip clamp_min clamp_max where masked_fill heaviside copysign
    nextafter hypot ldexp logaddexp logaddexp2 xlogy float_power atan2 arctan2
    neg negative pos positive abs absolute sign sgn signbit square sqrt rsqrt reciprocal
    exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan arcsin arccos arctan sinh cosh
    tanh asinh acosh atanh erf erfc erfinv sigmoid logit logsigmoid ceil floor round trunc fix frac
    isnan isinf isfinite isposinf isneginf isreal nan_to_num deg2rad rad2deg conj real
    relu relu6 leaky_relu prelu elu selu celu gelu silu mish softplus softsign tanhshrink hardtanh
    hardswish hardsigmoid hardshrink softshrink threshold
    softmax log_softmax softmin layer_norm rms_norm normalize
    """
)
"""Every element from the elements at its place, or from a whole row of them."""

UNCHANGED = _names(
    """
    contiguous clone to float double half bfloat16 int long short bool type type_as detach data cpu
    cuda requires_grad resolve_conj resolve_neg alias fill
    """
)
"""The first tensor's positions, whatever the other arguments."""

SHAKEN = _names(
    """
    dropout dropout1d dropout2d dropout3d alpha_dropout feature_alpha_dropout rrelu
    gumbel_softmax setitem scatter scatter_add scatter_reduce index_add index_copy index_fill
    index_put masked_scatter batch_norm instance_norm group_norm fill_diagonal
    """
)
"""The first tensor's positions, treated differently: copies don't stay copies."""

TRIANGULAR = frozenset({"tril", "triu"})
RUNNING = frozenset({"cumsum", "cumprod", "cummax", "cummin", "logcumsumexp"})
SORTING = frozenset({"sort", "argsort", "topk", "msort"})
REDUCTIONS = _names(
    """
    sum mean prod amax amin max min logsumexp var std norm vector_norm all any median nanmedian mode
    nansum nanmean argmax argmin count_nonzero kthvalue quantile nanquantile
    """
)


def pointwise(op: Operation) -> Layout:
    """All tensors broadcast together; each axis from a tensor that really has it."""
    given = [*op.args, *(value for name, value in op.kwargs.items() if name != "out")]
    return broadcast(op, [value for value in given if is_tensor(value)], op.out_shape)


def unchanged(op: Operation) -> Layout:
    """The same positions holding the same or converted values."""
    return op.layout()


def shaken(op: Operation) -> Layout:
    """The same positions, each treated in a way of its own."""
    return broadcast(op, [op.layout()], op.out_shape, distinct=range(len(op.out_shape)))


def triangular(op: Operation) -> Layout:
    """``tril`` and ``triu``: the last two axes treated by position."""
    ndim = len(op.out_shape)
    return broadcast(op, [op.layout()], op.out_shape, distinct=(ndim - 2, ndim - 1))


def running(op: Operation) -> Layout:
    """Sums and the like up to each position of one axis."""
    at = op.axis(1, "dim", "axis", ndim=len(op.out_shape))
    return broadcast(op, [op.layout()], op.out_shape, distinct=(at,))


def copied(op: Operation) -> Layout:
    """``copy_``: the positions of what is written."""
    source = op.argument(1, "src", "other")
    if not isinstance(source, Layout):
        raise UnfollowedError
    return broadcast(op, [source], op.out_shape)


def sorting(op: Operation) -> Layout:
    """Positions of one axis in an order that depends on the values."""
    layout = op.layout()
    position, fallback = (2, -1) if op.name == "topk" else (1, -1)
    if op.name == "msort":
        at = 0
    elif isinstance(op.argument(position, "dim"), bool):
        at = op.axis(position + 1, "dim", ndim=len(layout.axes), default=fallback)
    else:
        at = op.axis(position, "dim", ndim=len(layout.axes), default=fallback)
    return layout.replace(at, op.scrambled(layout.axes[at], op.out_shape[at]))


def reduction(op: Operation) -> Layout:
    """One value for all positions of some axes; ``max`` of two tensors is pointwise."""
    if any(is_tensor(value) for value in (*op.args[1:], op.kwargs.get("other"))):
        return pointwise(op)
    layout = op.layout()
    if op.out_shape == ():
        return Layout(())
    ndim = len(layout.axes)
    gone = {counted(axis, ndim) for axis in _reduced(op)} or set(range(ndim))
    if len(op.out_shape) == ndim:
        return Layout(tuple(() if i in gone else axis for i, axis in enumerate(layout.axes)))
    return Layout(tuple(axis for i, axis in enumerate(layout.axes) if i not in gone))


def _reduced(op: Operation) -> tuple[int, ...]:
    after_one_more = {"kthvalue", "quantile", "nanquantile", "norm", "vector_norm"}
    dims = op.argument(2 if op.name in after_one_more else 1, "dim", "axis")
    return () if dims is None else as_integers(dims)
