"""Hugging Face checkpoint folders: the model, its tokenizer, and text as inputs.

Weights are read from safetensors alone, code that lies in a checkpoint is never run, and nothing
is fetched from anywhere.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from attnscope.errors import MissingExtraError, TargetError
from attnscope.targets.blame import describe

IMPLEMENTATIONS = {"eager": "eager", "sdpa": "sdpa", "flex": "flex_attention"}

_PICKLED = ("*.bin", "*.pt", "*.pth", "*.ckpt")
_TOKENIZERS = ("tokenizer.json", "tokenizer_config.json", "vocab.txt", "vocab.json", "*.model")


def need_transformers(doing: str) -> None:
    """Raise MissingExtraError unless the package transformers can be imported."""
    try:
        found = importlib.util.find_spec("transformers") is not None
    except (ImportError, ValueError):
        found = False
    if not found:
        raise MissingExtraError(doing, "transformers", "hf")


def implementation(attention: str | None) -> str | None:
    """Return the name by which transformers knows an attention implementation."""
    return None if attention is None else IMPLEMENTATIONS[attention]


def load(
    folder: Path, attention: str | None, announce: Callable[[str], None]
) -> tuple[nn.Module, Any | None]:
    """Return the model of a checkpoint folder, in eval mode and float32, and its tokenizer or None.

    Args:
        folder: holds config.json and safetensors, and may hold a tokenizer.
        attention: one of `IMPLEMENTATIONS`, or None for the model's own choice.
        announce: told what could not be done.

    Raises:
        TargetError: the folder is no checkpoint, is damaged, or holds pickled weights alone.
        MissingExtraError: transformers is not installed.
    """
    doing = f"loading the checkpoint {folder}"
    _look(folder, doing)
    need_transformers(doing)
    with explained(doing):
        model = from_folder(folder, attention)
    return model, _tokenizer(folder, announce)


def from_folder(
    folder: Path, attention: str | None, *, otherwise: str = "AutoModel", **options: Any
) -> nn.Module:
    """Return the model of the class that the folder's configuration names, in eval mode.

    Args:
        folder: holds the configuration and the weights.
        attention: one of `IMPLEMENTATIONS`, or None for the model's own choice.
        otherwise: the class of transformers for a configuration that names none, or none known.
        options: more arguments of `from_pretrained`.
    """
    import transformers

    local = {"local_files_only": True, "trust_remote_code": False}
    config = transformers.AutoConfig.from_pretrained(folder, **local, **options)
    names = getattr(config, "architectures", None) or [otherwise]
    model_class = getattr(transformers, names[0], None) or getattr(transformers, otherwise)
    chosen = implementation(attention)
    if chosen is not None:
        options["attn_implementation"] = chosen
    if "gguf_file" not in options:
        options["use_safetensors"] = True
    with without_bars():
        model = model_class.from_pretrained(folder, dtype=torch.float32, **local, **options)
    loaded: nn.Module = model.eval()
    return loaded


@contextmanager
def explained(doing: str) -> Iterator[None]:
    """Turn what transformers raises while it loads into a TargetError, or a MissingExtraError."""
    try:
        yield
    except ImportError as error:
        if error.name in {"gguf", "accelerate", "sentencepiece"}:
            raise MissingExtraError(doing, error.name, "samples") from error
        raise TargetError(doing, describe(error), "install what it names") from error
    except Exception as error:
        raise TargetError(
            doing,
            describe(error),
            "save the model again with save_pretrained, or mend what it names",
        ) from error


def encode(
    model: nn.Module, tokenizer: Any, texts: Sequence[str], *, continued: bool = False
) -> dict[str, Any]:
    """Return texts as a padded batch of token ids, with the mask that goes with it.

    Args:
        model: tells what its forward takes, and how many positions it has.
        tokenizer: of the same checkpoint.
        texts: one row of the batch each.
        continued: pad on the left, so that generated tokens follow the last word.

    Raises:
        TargetError: a text is empty, or longer than the model's positions.
    """
    doing = "tokenising the text"
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token or tokenizer.unk_token
    side = "left" if continued else tokenizer.padding_side
    rows = dict(
        tokenizer(list(texts), padding=len(texts) > 1, padding_side=side, return_tensors="pt")
    )
    length = int(rows["input_ids"].shape[1])
    if length == 0:
        raise TargetError(doing, "it has no tokens", "give --text at least one word")
    config: Any = getattr(model, "config", None)
    limit = getattr(config, "max_position_embeddings", None)
    if isinstance(limit, int) and length > limit:
        raise TargetError(
            doing, f"it has {length} tokens, the model {limit} positions", "shorten it"
        )
    taken = _arguments(model)
    if (
        "decoder_input_ids" in taken
        and getattr(config, "is_encoder_decoder", False)
        and not continued
    ):
        rows["decoder_input_ids"] = _shifted(rows["input_ids"], config)
    return {name: value for name, value in rows.items() if name in taken}


def _shifted(ids: Tensor, config: Any) -> Tensor:
    """Return the ids one place to the right, behind the token that starts a decoder."""
    start = getattr(config, "decoder_start_token_id", None)
    start = getattr(config, "pad_token_id", None) if start is None else start
    first = torch.full_like(ids[:, :1], 0 if start is None else int(start))
    return torch.cat([first, ids[:, :-1]], dim=1)


def _arguments(model: nn.Module) -> set[str]:
    import inspect

    return set(inspect.signature(model.forward).parameters)


def _look(folder: Path, doing: str) -> None:
    """Refuse a folder that is no checkpoint, before the heavy packages are imported."""
    if not (folder / "config.json").is_file():
        found = "it has no config.json"
        if (folder / "manifest.json").is_file():
            raise TargetError(
                doing, f"{found}: it is a stored trace", "read it with attnscope.load"
            )
        raise TargetError(doing, found, "give a folder that save_pretrained has written")
    if any(folder.glob("*.safetensors")):
        return
    pickled = sorted(path.name for pattern in _PICKLED for path in folder.glob(pattern))
    if pickled:
        raise TargetError(
            doing,
            f"its weights are pickled ({pickled[0]}), and reading a pickle can run any code",
            "save it with save_pretrained(..., safe_serialization=True)",
        )
    raise TargetError(doing, "it has no *.safetensors", "save the weights into it as safetensors")


def _tokenizer(folder: Path, announce: Callable[[str], None]) -> Any | None:
    """Return the tokenizer of the folder, or None where it has none that loads."""
    import transformers

    if not any(any(folder.glob(pattern)) for pattern in _TOKENIZERS):
        return None
    try:
        return transformers.AutoTokenizer.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False
        )
    except Exception as error:  # noqa: BLE001  only labels and --text need it, and --text says so
        announce(f"no tokenizer: {describe(error)}")
        return None


@contextmanager
def without_bars() -> Iterator[None]:
    """Hide the progress bars of transformers for a while."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()  # type: ignore[no-untyped-call]
