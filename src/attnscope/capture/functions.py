"""What the functions of PyTorch are called, and what kind of thing they do to a tensor.

A function mode is handed methods, operators, property getters, `torch.*` and `F.*` functions alike;
`operation_name` gives them one name ("__matmul__" → "matmul", "__iadd__" → "add_"), and `kind_of`
says what a recorder has to do about them. Both are remembered per function, so they cost a lookup.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

Function = Callable[..., Any]


class Kind(enum.Enum):
    """What the recorder does about a function."""

    SKIP = enum.auto()  # asks about a tensor and makes none: shape, dtype, size()
    ORDINARY = enum.auto()  # makes a tensor from tensors
    CONTRACTION = enum.auto()  # sums products over a shared axis
    NORMALISER = enum.auto()  # not linear: what may turn scores into weights
    PRODUCT = enum.auto()  # elementwise product: half of a contraction written by hand
    REDUCTION = enum.auto()  # the other half
    BOUNDARY = enum.auto()  # starts a new representation: nothing is followed through it
    RANDOM = enum.auto()  # draws random numbers
    HANDS_OUT_MEMORY = enum.auto()  # gives away memory, to be written to unseen


_OPERATORS = {
    "truediv": "div",
    "itruediv": "div_",
    "rtruediv": "rdiv",
    "imatmul": "matmul_",
    "iadd": "add_",
    "isub": "sub_",
    "imul": "mul_",
    "idiv": "div_",
    "ipow": "pow_",
    "iand": "bitwise_and_",
    "ior": "bitwise_or_",
    "multiply": "mul",
    "multiply_": "mul_",
    "divide": "div",
    "divide_": "div_",
    "subtract": "sub",
    "subtract_": "sub_",
    "true_divide": "div",
    "negative": "neg",
    "swapaxes": "transpose",
    "swapdims": "transpose",
    "moveaxis": "movedim",
    "concat": "cat",
    "concatenate": "cat",
    "_softmax": "softmax",
    "_log_softmax": "log_softmax",
    "expit": "sigmoid",
    "log_sigmoid": "logsigmoid",
}

_SKIPPED = frozenset(
    "size dim ndim ndimension numel nelement stride storage_offset element_size is_contiguous "
    "is_floating_point is_complex is_signed is_nonzero is_inference is_same_size is_tensor "
    "shape dtype device layout requires_grad grad grad_fn is_leaf is_cuda is_cpu is_meta is_sparse "
    "is_nested is_quantized is_mps is_xpu is_mkldnn names nbytes itemsize retains_grad output_nr "
    "_version _base _backward_hooks name item tolist backward "
    "__len__ __bool__ __int__ __float__ __index__ __repr__ __str__ __format__ __hash__ "
    "__contains__ __dlpack_device__ __deepcopy__ __reduce_ex__ get_device has_names "
    "register_hook retain_grad equal allclose promote_types can_cast result_type "
    "_set_grad_enabled set_default_dtype manual_seed is_grad_enabled is_inference_mode_enabled "
    "_assert _assert_async _is_view is_set_to is_shared is_pinned _get_tracing_state "
    "broadcast_shapes finfo iinfo unsafe_set_data _cdata is_coalesced dense_dim sparse_dim "
    "__set__ __delete__ set_grad_enabled type_as_dtype".split()
)

_MEMORY = frozenset("untyped_storage storage numpy __array__ __dlpack__ data_ptr".split())

_CONTRACTIONS = frozenset(
    "matmul rmatmul mm bmm mv dot inner einsum baddbmm addbmm addmm addmv tensordot vdot "
    "chain_matmul multi_dot linear".split()
)

_NORMALISERS = frozenset(
    "softmax log_softmax softmin gumbel_softmax exp exp2 expm1 sigmoid logsigmoid hardsigmoid relu "
    "relu6 leaky_relu gelu silu mish elu celu selu softplus square pow rpow tanh hardtanh abs "
    "clamp clamp_min clip threshold sparsemax entmax softsign hardswish erf sqrt rsqrt reciprocal "
    "normalize heaviside log log1p".split()
)

SOFTMAXES = frozenset({"softmax", "log_softmax", "softmin", "gumbel_softmax"})
"""The normalisers that are one function, over one axis."""

_BOUNDARIES = frozenset(
    "layer_norm native_layer_norm rms_norm group_norm instance_norm embedding embedding_bag "
    "cross_entropy nll_loss mse_loss binary_cross_entropy binary_cross_entropy_with_logits "
    "l1_loss smooth_l1_loss kl_div cosine_similarity argmax argmin argsort multinomial "
    "ctc_loss huber_loss one_hot bincount nonzero unique isnan isinf isfinite eq ne lt le gt ge "
    "grid_sample interpolate max_pool1d max_pool2d avg_pool1d avg_pool2d adaptive_avg_pool1d "
    "adaptive_avg_pool2d conv_transpose1d conv_transpose2d conv3d gru lstm rnn_tanh fft_fft "
    "fft_ifft fft_rfft fft_irfft".split()
)

_RANDOM = frozenset(
    "dropout dropout1d dropout2d dropout3d alpha_dropout feature_alpha_dropout native_dropout "
    "bernoulli rand_like randn_like randint_like normal uniform exponential cauchy rrelu "
    "gumbel_softmax multinomial geometric log_normal random".split()
)

_names: dict[Function, str] = {}
_kinds: dict[Function, Kind] = {}


def operation_name(function: Function) -> str:
    """Return one name for all forms of an operation; in-place forms end with "_"."""
    name = _names.get(function)
    if name is None:
        name = _names[function] = _name_of(function)
    return name


def _name_of(function: Function) -> str:
    raw: str = getattr(function, "__name__", None) or getattr(function, "_name", None) or ""
    if raw in {"__get__", "__set__", "__delete__"}:
        owner = getattr(function, "__self__", None)
        name = str(getattr(owner, "__name__", ""))
        if raw == "__get__":
            return name
        return "set_data_" if name == "data" else raw
    packet = getattr(function, "_overloadpacket", None)
    if packet is not None:  # torch.ops.aten.softmax.int
        raw = packet.__name__
    if raw == "__iter__":
        return raw
    if raw.startswith("__") and raw.endswith("__") and raw not in _SKIPPED | _MEMORY:
        raw = raw[2:-2]
    raw = raw.removeprefix("special_").removeprefix("linalg_")
    return _OPERATORS.get(raw, raw)


def kind_of(function: Function) -> Kind:
    """Return what the recorder does about `function`."""
    kind = _kinds.get(function)
    if kind is None:
        kind = _kinds[function] = _kind_of_name(operation_name(function))
    return kind


def _kind_of_name(name: str) -> Kind:
    bare = name.removesuffix("_") if not name.endswith("__") else name
    groups = (
        (_SKIPPED, Kind.SKIP),
        (_MEMORY, Kind.HANDS_OUT_MEMORY),
        (_CONTRACTIONS, Kind.CONTRACTION),
        (_RANDOM, Kind.RANDOM),
        (_NORMALISERS, Kind.NORMALISER),
        (_BOUNDARIES, Kind.BOUNDARY),
        (frozenset({"mul", "rmul"}), Kind.PRODUCT),
        (frozenset({"sum"}), Kind.REDUCTION),
    )
    for names, kind in groups:
        if name in names or bare in names:
            return kind
    return Kind.ORDINARY


def changes_in_place(name: str) -> bool:
    """Return whether the operation writes to its first argument."""
    return name == "setitem" or (name.endswith("_") and not name.endswith("__"))
