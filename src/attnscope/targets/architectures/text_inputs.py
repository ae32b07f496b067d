"""Token inputs: ids with placeholders, masks with padding, boxes and the ids beside them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from attnscope.targets.architectures.plan import Plan

if TYPE_CHECKING:
    import torch

PLACEHOLDERS: dict[str, tuple[str, ...]] = {
    "image": ("image_token_id", "image_token_index", "media_placeholder_token_id", "img_token_id"),
    "video": ("video_token_id", "video_token_index"),
    "audio": ("audio_token_id", "audio_token_index"),
}


def placeholder(plan: Plan, kind: str) -> int | None:
    """Return the token id that stands for one feature of `kind`, or None."""
    found = plan.look(*PLACEHOLDERS[kind])
    return found if isinstance(found, int) else None


def vocabulary(plan: Plan) -> int:
    """Return the number of token ids that the text side knows."""
    size = plan.look(
        "vocab_size", "text_vocab_size", "n_vocab", parts=("text_config", "decoder", "encoder")
    )
    return int(size) if isinstance(size, int) and size > 1 else 64


def input_ids(plan: Plan) -> torch.Tensor:
    """Return ids (batch, length): free text around as many placeholders as there are features."""
    import torch

    special = plan.special_tokens()
    free = [token for token in range(3, vocabulary(plan)) if token not in special]
    rows = torch.tensor(free)[torch.randint(len(free), (plan.batch, plan.length))]
    inserted = [_placeholder_rows(plan, kind) for kind in plan.placeholders]
    blocks = [block for block in inserted if block is not None]
    if blocks:
        rows = torch.cat([rows[:, :2], *blocks, rows[:, 2:]], dim=1)
    pad = plan.look("pad_token_id", parts=("text_config",))
    if plan.padded and "attention_mask" not in plan.dropped and isinstance(pad, int):
        rows[-1, -plan.padded :] = pad if 0 <= pad < vocabulary(plan) else rows[-1, -plan.padded :]
    return _streams(plan, rows) if not plan.config.is_encoder_decoder else rows


def codebooks(plan: Plan) -> int:
    """Return how many parallel streams of audio tokens the model reads; 0 for none."""
    if plan.codebooks:
        return plan.codebooks
    value = plan.look("num_codebooks", "n_codebooks", "num_code_groups", default=0)
    return int(value) if isinstance(value, int) else 0


def _streams(plan: Plan, ids: torch.Tensor) -> torch.Tensor:
    """Repeat `ids` (batch, length) for each codebook along the axis of this attempt."""
    count = codebooks(plan)
    if plan.ids_form == "rows":
        return ids.repeat_interleave(count, dim=0)
    if plan.ids_form == "last":
        return ids.unsqueeze(-1).repeat(1, 1, count)
    if plan.ids_form == "middle":
        return ids.unsqueeze(1).repeat(1, count, 1)
    return ids


def _placeholder_rows(plan: Plan, kind: str) -> torch.Tensor | None:
    import torch

    token, count = placeholder(plan, kind), plan.placeholders[kind]
    if token is None or count < plan.batch:
        return None
    return torch.full((plan.batch, count // plan.batch), token)


def attention_mask(plan: Plan) -> torch.Tensor:
    """Return 1 for tokens and 0 for the padding at the end of the last row."""
    import torch

    ids = input_ids(plan)
    length = ids.shape[1] if plan.ids_form in ("flat", "last") else ids.shape[-1]
    mask = torch.ones(plan.batch, length, dtype=torch.long)
    if plan.padded:
        mask[-1, -plan.padded :] = 0
    return mask


def decoder_input_ids(plan: Plan) -> torch.Tensor:
    """Return ids (batch, decoder length)."""
    import torch

    size = plan.look("vocab_size", parts=("decoder", "text_config", "decoder_config"), default=64)
    ids = torch.randint(3, int(size), (plan.batch, plan.decoder_length))
    return _streams(plan, ids)


def bbox(plan: Plan) -> torch.Tensor:
    """Return boxes (batch, length, 4): left, top, right, bottom in layout units."""
    import torch

    if plan.unit_boxes:
        corner = torch.rand(plan.batch, plan.length, 2) / 2
        return torch.cat([corner, corner + 0.25], dim=-1)
    corner = torch.randint(0, 40, (plan.batch, plan.length, 2))
    return torch.cat([corner, corner + torch.randint(1, 40, corner.shape)], dim=-1)


def mm_token_type_ids(plan: Plan) -> torch.Tensor:
    """Return 1 where an image placeholder stands, 2 for video, 3 for audio, else 0."""
    import torch

    ids = input_ids(plan)
    types = torch.zeros_like(ids)
    for number, kind in enumerate(PLACEHOLDERS, start=1):
        token = placeholder(plan, kind)
        if token is not None:
            types[ids == token] = number
    return types


def query_embeds(plan: Plan) -> torch.Tensor:
    """Return learned-query stand-ins (batch, queries, width)."""
    import torch

    return torch.randn(plan.batch, 6, int(plan.look("hidden_size", default=32)))


def image_attention_mask(plan: Plan) -> torch.Tensor:
    """Return 1 where a token may look at an image (batch, length, images)."""
    import torch

    return torch.ones(plan.batch, input_ids(plan).shape[1], 2, dtype=torch.long)


def image_embeds_position_mask(plan: Plan) -> torch.Tensor:
    """Return True for the tokens whose places the image features take."""
    import torch

    mask = torch.zeros(plan.batch, plan.length, dtype=torch.bool)
    mask[:, 1 : 1 + int(plan.look("latent_query_num", default=6))] = True
    return mask


def task_inputs(plan: Plan) -> torch.Tensor:
    """Return the ids that name the task (batch, length)."""
    import torch

    return torch.randint(3, 49, (plan.batch, int(plan.look("task_seq_len", default=8))))


def classes_input_ids(plan: Plan) -> torch.Tensor:
    """Return the names of three classes (classes, length): two for one image, one for the next."""
    import torch

    return torch.randint(3, vocabulary(plan), (3, 5))


def classes_structure(_plan: Plan) -> torch.Tensor:
    """Return the number of classes of each image."""
    import torch

    return torch.tensor([2, 1])


def classes_attention_mask(plan: Plan) -> torch.Tensor:
    """Return 1 for every token of the class names."""
    import torch

    return torch.ones_like(classes_input_ids(plan))


def tasks_attention_mask(plan: Plan) -> torch.Tensor:
    """Return 1 for every token of the task."""
    import torch

    return torch.ones_like(decoder_input_ids(plan))


def use_cache(_plan: Plan) -> bool:
    """Return False: keys and values of this run alone."""
    return False


MAKERS: dict[str, Callable[[Plan], Any]] = {
    "input_ids": input_ids,
    "attention_mask": attention_mask,
    "decoder_input_ids": decoder_input_ids,
    "bbox": bbox,
    "query_embeds": query_embeds,
    "image_attention_mask": image_attention_mask,
    "image_embeds_position_mask": image_embeds_position_mask,
    "task_inputs": task_inputs,
    "use_cache": use_cache,
    "classes_input_ids": classes_input_ids,
    "classes_attention_mask": classes_attention_mask,
    "classes_structure": classes_structure,
    "tasks_input_ids": decoder_input_ids,
    "tasks_attention_mask": tasks_attention_mask,
    "qformer_input_ids": decoder_input_ids,
    "context_input_ids": input_ids,
    "mm_token_type_ids": mm_token_type_ids,
}
