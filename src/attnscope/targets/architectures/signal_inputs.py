"""Audio, time series and plain hidden states."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from attnscope.targets.architectures import vision_inputs
from attnscope.targets.architectures.plan import Plan

if TYPE_CHECKING:
    import torch

AUDIO = ("audio_config", "audio_encoder", "encoder_config", "encoder")


def _mels(plan: Plan) -> int:
    if plan.mels:
        return plan.mels
    names = (
        "input_dim",
        "num_mel_bins",
        "model_in_dim",
        "mel_dim",
        "feature_projection_input_dim",
        "input_feat_per_channel",
        "feature_size",
        "n_mels",
    )
    return int(plan.look(*names, parts=AUDIO, default=80))


def _frames(plan: Plan) -> int:
    if plan.frames:
        return plan.frames
    positions = plan.look("max_source_positions", parts=AUDIO)
    return 2 * int(positions) if isinstance(positions, int) else 64


def input_features(plan: Plan) -> torch.Tensor:
    """Return a spectrogram (batch, mels, frames) or (batch, frames, mels)."""
    import torch

    frames, mels = _frames(plan), _mels(plan)
    if plan.feature_form == "packed":
        return torch.randn(mels, plan.batch * frames)
    if plan.feature_form == "time first":
        return torch.randn(plan.batch, frames, mels)
    if plan.feature_form == "channel first":
        return torch.randn(plan.batch, 1, frames, mels)
    return torch.randn(plan.batch, mels, frames)


def input_values(plan: Plan) -> torch.Tensor:
    """Return a waveform (batch, samples) or (batch, 1, samples), or a spectrogram."""
    import torch

    if plan.wave_form == "spectrogram":
        return torch.randn(plan.batch, int(plan.look("max_length", default=64)), _mels(plan))
    if plan.wave_form == "one channel":
        return torch.randn(plan.batch, 1, plan.samples)
    return torch.randn(plan.batch, plan.samples)


def frame_mask(plan: Plan) -> torch.Tensor:
    """Return 1 for every frame of the spectrogram."""
    import torch

    return torch.ones(plan.batch, _frames(plan), dtype=torch.long)


def past_values(plan: Plan) -> torch.Tensor:
    """Return a series (batch, steps) or (batch, steps, channels)."""
    import torch

    lags = plan.look("lags_sequence")
    steps = int(plan.look("context_length", default=32)) + max(lags or [0])
    channels = plan.look("num_input_channels")
    if channels is None:
        return torch.randn(plan.batch, steps)
    return torch.randn(plan.batch, steps, int(channels))


def past_time_features(plan: Plan) -> torch.Tensor:
    """Return what is known of each past step (batch, steps, features)."""
    import torch

    steps = past_values(plan).shape[1]
    return torch.randn(plan.batch, steps, int(plan.look("num_time_features", default=1)))


def future_values(plan: Plan) -> torch.Tensor:
    """Return the steps to predict (batch, steps)."""
    import torch

    return torch.randn(plan.batch, int(plan.look("prediction_length", default=5)))


def future_time_features(plan: Plan) -> torch.Tensor:
    """Return what is known of each step to predict (batch, steps, features)."""
    import torch

    steps = int(plan.look("prediction_length", default=5))
    return torch.randn(plan.batch, steps, int(plan.look("num_time_features", default=1)))


def feature_lens(plan: Plan) -> torch.Tensor:
    """Return the number of frames of each recording."""
    import torch

    return torch.full((plan.batch,), _frames(plan))


def spectrogram(plan: Plan) -> torch.Tensor:
    """Return a spectrogram (batch, frames, mels)."""
    import torch

    return torch.randn(plan.batch, 16, _mels(plan))


def states(plan: Plan) -> torch.Tensor:
    """Return states of the world (batch, steps, state width)."""
    import torch

    return torch.randn(plan.batch, plan.length, int(plan.look("state_dim", default=17)))


def actions(plan: Plan) -> torch.Tensor:
    """Return actions (batch, steps, action width)."""
    import torch

    return torch.randn(plan.batch, plan.length, int(plan.look("act_dim", default=4)))


def returns(plan: Plan) -> torch.Tensor:
    """Return a number for each step (batch, steps, 1)."""
    import torch

    return torch.randn(plan.batch, plan.length, 1)


def timesteps(plan: Plan) -> torch.Tensor:
    """Return the number of each step (batch, steps)."""
    import torch

    return torch.arange(plan.length).expand(plan.batch, -1)


def past_observed_mask(plan: Plan) -> torch.Tensor:
    """Return True where the series was observed: everywhere."""
    import torch

    return torch.ones_like(past_values(plan), dtype=torch.bool)


def hidden_states(plan: Plan) -> torch.Tensor:
    """Return random states (batch, length, width), or flattened patches beside a grid."""
    import torch

    if "grid_thw" in plan.parameters():
        return vision_inputs.pixel_values(plan)

    width = plan.width or plan.look("hidden_size", "d_model", "embed_dim", default=32)
    return torch.randn(plan.batch, plan.length, int(width if isinstance(width, int) else width[0]))


def audio_mel(plan: Plan) -> torch.Tensor:
    """Return a spectrogram (batch, frames, mels)."""
    import torch

    return torch.randn(plan.batch, 64, _mels(plan))


def audio_mel_mask(plan: Plan) -> torch.Tensor:
    """Return False for every frame: none is padding."""
    import torch

    return torch.zeros(plan.batch, 64, dtype=torch.bool)


def world_state(plan: Plan) -> torch.Tensor:
    """Return the state of a robot (batch, state width)."""
    import torch

    return torch.randn(plan.batch, int(plan.look("max_state_dim", default=32)))


MAKERS: dict[str, Callable[[Plan], Any]] = {
    "input_features": input_features,
    "input_features_mask": frame_mask,
    "feature_attention_mask": frame_mask,
    "input_values": input_values,
    "past_values": past_values,
    "past_observed_mask": past_observed_mask,
    "past_time_features": past_time_features,
    "future_values": future_values,
    "future_time_features": future_time_features,
    "feature_lens": feature_lens,
    "spectrogram": spectrogram,
    "audio_mel": audio_mel,
    "audio_mel_mask": audio_mel_mask,
    "state": world_state,
    "context": hidden_states,
    "patch_embeds": hidden_states,
    "states": states,
    "actions": actions,
    "rewards": returns,
    "returns_to_go": returns,
    "timesteps": timesteps,
    "hidden_states": hidden_states,
    "inputs_embeds": hidden_states,
    "encoder_hidden_states": hidden_states,
}
