"""What cannot be derived for an architecture, one reason for each."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Special:
    """Values for one model type, wherever it occurs in a tree of configurations.

    `config` maps field names, or dotted paths below it, to values. `plan` sets attributes of the
    first plan. `keep` leaves the configuration as it is. `skip` names forward arguments that must
    not be given, `prefer` the model class to try first.
    """

    reason: str
    config: dict[str, Any] = field(default_factory=dict)
    plan: dict[str, Any] = field(default_factory=dict)
    keep: bool = False
    skip: frozenset[str] = frozenset()
    prefer: str = ""


NOTHING = Special("nothing special")

_SERIES = {"prediction_length": 5, "context_length": 14, "num_time_features": 2}
_SECTIONS = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [1, 1, 2]}
_TWO_VOICES = {"frames": 12, "feature_form": "time first", "wave_form": "one channel"}
_PYRAMID = [[16, 16], [8, 8], [4, 4]]
_THIN = {
    "image_size": 64,
    "hidden_dim": 640,
    "width_coefficient": 0.5,
    "depth_coefficient": 0.5,
    "initializer_range": 0.2,
}
_UNGROUPED = "takes as many kv heads as heads, whatever the configuration says"
_CONVOLUTIONS = "purely convolutional, and its channels are written down block by block"

SPECIAL: dict[str, Special] = {
    "bamba": Special("no layer attends by default", {"attn_layer_indices": [1]}),
    "jamba": Special("attention comes late", {"attn_layer_period": 2, "attn_layer_offset": 1}),
    "lfm2_moe": Special("has no default layer kinds", {"layer_types": ["conv", "full_attention"]}),
    "cvt": Special("stage i reads entry i of its drop rates", {"depth": [1, 2, 3]}),
    "deepseek_ocr2_text": Special(
        "its layer kinds and experts have no default",
        {"mlp_layer_types": ["dense", "sparse"], "num_experts_per_tok": 2},
    ),
    "deepseek_v2": Special("its experts have no default", {"num_experts_per_tok": 2}),
    "chmv2": Special(
        "reads the class token of its backbone", {"backbone_config.return_class_token": True}
    ),
    "esm": Special("needs a padding token", {"pad_token_id": 1}),
    "shieldgemma2": Special(
        "answers with two tokens", {"yes_token_index": 20, "no_token_index": 21}
    ),
    "qwen2_5_omni_thinker": Special("reads a field it lacks", {"vision_start_token_id": 90}),
    "glm5_next_text": Special("pools keys before choosing", {"index_kpool": 2}),
    "dots3_note_audio_encoder": Special("its adapter is as wide", {"adapter_input_size": 32}),
    "nemotron3_diarization": Special("chunks look ahead", {"chunk_length": 60}),
    "granitemoehybrid": Special(
        "no layer attends by default", {"layer_types": ["mamba", "attention"]}
    ),
    "recurrent_gemma": Special("every third layer attends", {"num_hidden_layers": 3}),
    "autoformer": Special(
        "its lengths have no default", {**_SERIES, "label_length": 7, "moving_average": 5}
    ),
    "informer": Special("its lengths have no default", _SERIES),
    "time_series_transformer": Special("its lengths have no default", _SERIES),
    "diffusion_gemma_text": Special(
        "its experts have no default",
        {"num_experts": 4, "top_k_experts": 2, "moe_intermediate_size": 24},
    ),
    "dots1": Special(
        "its experts have no default",
        {"n_routed_experts": 4, "n_shared_experts": 1, "num_experts_per_tok": 2},
    ),
    "esmc": Special(_UNGROUPED, {"num_key_value_heads": 4}),
    "bridgetower": Special("heads are 64 wide", {"hidden_size": 128}),
    "bridgetower_vision_model": Special("heads are 64 wide", {"hidden_size": 128}),
    "bridgetower_text_model": Special("both towers are equally wide", {"hidden_size": 128}),
    "chameleon": Special(
        "images become tokens of the vocabulary",
        {
            "vocabulary_map": {
                "<image>": 100,
                **{f"IMGIMG{chr(65 + i)}Z": 101 + i for i in range(8)},
            },
            "vq_config.num_embeddings": 8,
        },
    ),
    "clvp_encoder": Special("rotates at least 32 features", {"hidden_size": 128}),
    "clvp_decoder": Special("as wide as the encoder", {"hidden_size": 128}),
    "levit": Special("four strides of two make a patch", {"image_size": 64, "patch_size": 16}),
    "llama4_vision_model": Special(
        "pixels are shuffled into channels",
        {"intermediate_size": 128, "projector_input_dim": 32, "projector_output_dim": 32},
    ),
    "qwen4_exp_text": Special(
        "its indexer has no default sizes",
        {
            "indexer_n_heads": 4,
            "indexer_kv_heads": 1,
            "indexer_head_dim": 8,
            "indexer_budget": 8,
            "indexer_compress_ratio": 4,
        },
    ),
    "t5gemma2_text": Special("reads a field it lacks", {"dropout_rate": 0.0}),
    "t5gemma2_decoder": Special("reads a field it lacks", {"dropout_rate": 0.0}),
    "pix2struct_text_model": Special("reads a field it lacks", {"initializer_range": 0.02}),
    "moonshine_streaming": Special("reads a field it lacks", {"num_key_value_heads": 4}),
    "aria": Special("its table is by patches", {"projector_patch_to_query_dict": {16: 4}}),
    "bros": Special("boxes take an eighth of the width", {"hidden_size": 64}),
    "dbrx": Special(
        "the rotary base moved", {"attn_config.rope_theta": 10000.0, "attn_config.clip_qkv": 8.0}
    ),
    "gemma4_audio": Special(
        "channels span the mels", {"subsampling_conv_channels": [128, 8]}, {"mels": 128}
    ),
    "gemma3n_audio": Special("channels span the mels", {}, {"mels": 128}),
    "xmod": Special("languages have adapters", {"default_language": "en_XX"}),
    "perceiver": Special("latents are cut into heads", {"d_latents": 32, "num_latents": 6}),
    "vipllava": Special("reads five layers", {"vision_feature_layers": [-1, -2]}),
    "gpt_neo": Special("names kinds and repeats", {"attention_types": [[["global", "local"], 1]]}),
    "lw_detr_vit": Special("windows tile the image", {"num_windows": 4}),
    "neomme": Special("rotates pairs of pairs", {"head_dim": 16}),
    "seggpt": Special(
        "sees the prompt above the image",
        {
            "image_size": [64, 32],
            "num_hidden_layers": 4,
            "merge_index": 1,
            "intermediate_hidden_state_indices": [2, 3],
        },
        {"side": (32, 32)},
    ),
    "pix2struct_vision_model": Special(
        "takes patches as they are", {"patch_embed_hidden_size": 192}
    ),
    "kosmos_2_5_vision_model": Special(
        "takes patches as they are", {"patch_embed_hidden_size": 192}
    ),
    "pp_lcnet_v4": Special(_CONVOLUTIONS, keep=True),
    "univnet": Special(_CONVOLUTIONS, keep=True),
    "textnet": Special("its stem feeds the first stage", {"stem_out_channels": 8}),
    "zamba": Special(
        "hybrid layers share weights, so there are two",
        {"num_hidden_layers": 4, "layer_types": ["linear_attention", "hybrid"] * 2},
    ),
    "efficientnet": Special(_CONVOLUTIONS, _THIN, keep=True),
    "align_vision_model": Special(_CONVOLUTIONS, _THIN, keep=True),
    "vitmatte": Special(
        "details are scaled up from patches of 16",
        {"fusion_hidden_sizes": [32, 16, 8, 4], "backbone_config.patch_size": 16},
    ),
    "superpoint": Special(
        "a cell has 64 pixels and a dustbin", {"keypoint_decoder_dim": 65, "max_keypoints": 16}
    ),
    "apertus1p5": Special(
        "image and audio codes are ranges of the vocabulary",
        {"text_config.vocab_size": 256, "image_token_offset": 128, "audio_token_offset": 192},
    ),
    "depth_pro": Special(
        "cuts images into crops",
        {"patch_size": 32, "intermediate_hook_ids": [1, 0]},
        {"side": (128, 128)},
    ),
    "efficientloftr": Special(
        "is as wide as its last stage", {"out_features": [8, 8, 16, 32], "num_attention_heads": 8}
    ),
    "falcon_h1": Special("the state-space width is given", {"mamba_d_ssm": 64}),
    "fun_asr_nano": Special(
        "widths are tied", {"adaptor_config.intermediate_size": 8}, {"mels": 560}
    ),
    "fun_asr_nano_encoder": Special("stacks seven frames", {}, {"mels": 560}),
    "molmo2": Special("reads two layers", {"adapter_config.vision_feature_layer": [1, 0]}),
    "nemotron_h_omni": Special("spans must agree", {"vision_config.video_temporal_patch_size": 2}),
    "sam2_hiera_det_model": Special(
        "stages double",
        {"embed_dim_per_stage": [32, 64, 128, 256], "num_attention_heads_per_stage": [1, 2, 4, 8]},
    ),
    "sam2_vision_model": Special(
        "reads the stages",
        {"backbone_channel_list": [256, 128, 64, 32], "backbone_feature_sizes": _PYRAMID},
    ),
    "cohere_compass_text": Special(
        "rotary sections by layer kind",
        {"rope_parameters": {"full_attention": _SECTIONS, "sliding_attention": _SECTIONS}},
    ),
    "paddleocr_vl_text": Special("rotary sections", {"rope_parameters": _SECTIONS}),
    "deepseek_ocr2_sam_vision_model": Special(
        "feeds an encoder", {"downsample_channels": [16, 32]}
    ),
    "unlimited_ocr_sam_vision_model": Special(
        "feeds an encoder", {"downsample_channels": [16, 32]}
    ),
    "muse_glimmer": Special("merges patches into channels", {"out_hidden_size": 128}),
    "muse_spark": Special("merges patches into channels", {"out_hidden_size": 128}),
    "neucodec": Special(
        "joins two encoders", {"quantization_dim": 64, "num_key_value_heads": 4}, _TWO_VOICES
    ),
    "xcodec2": Special(
        "joins two encoders", {"quantization_dim": 64, "num_key_value_heads": 4}, _TWO_VOICES
    ),
    "blt": Special("its cache asks for a number of layers", {"num_hidden_layers": 2}),
    "clap_audio_model": Special("four stages double the width", {"hidden_size": 256}),
    "dia": Special("nine streams", {}, {"codebooks": 9, "ids_form": "last"}),
    "kyutai_speech_to_text": Special("text and streams", {}, {"codebooks": 33, "ids_form": "last"}),
    "dory": Special("loops over its cache", {}, {"given": {"use_cache"}}),
    "emu3": Special(
        "images become tokens of the vocabulary",
        {
            "vocabulary_map": {
                "<image>": 100,
                "<|extra_200|>": 101,
                **{f"<|visual token {code:06d}|>": 102 + code for code in range(8)},
            }
        },
    ),
    "glmasr_encoder": Special("four frames make a feature", {"intermediate_size": 128}),
    "voxtral_encoder": Special("four frames make a feature", {"intermediate_size": 128}),
    "janus_vqgan": Special("decodes a square of codes", {"num_patches": 4}),
    "kosmos-2": Special(
        "images take marked places",
        {"latent_query_num": 6},
        {"given": {"image_embeds_position_mask"}},
    ),
    "layoutlmv3": Special("six parts make the width", {"coordinate_size": 6, "shape_size": 4}),
    "lilt": Special("six parts make the width", {"hidden_size": 48}),
    "lw_detr": Special("names no scales", {"projector_scale_factors": [1.0]}),
    "mobilevit": Special("heads divide the widths", {"hidden_sizes": [16, 24, 32]}),
    "pop2piano": Special("reads spectrograms", skip=frozenset({"input_ids"})),
    "pp_ocrv5_mobile_rec": Special("reads lines of text", plan={"side": (96, 320)}),
    "qwen3_omni_moe_thinker": Special("reads a field it lacks", {"vision_start_token_id": 90}),
    "speech-encoder-decoder": Special("reads waves", skip=frozenset({"input_features"})),
    "step3p5": Special("its window has no default", {"sliding_window": 4}),
    "udop": Special("boxes are fractions", plan={"unit_boxes": True}),
    "voxtral_realtime": Special("text and audio run side by side", plan={"length": 8}),
    "xclip_vision_model": Special("frames are rows of the batch: two videos", plan={"batch": 16}),
    "zoedepth": Special("its bottleneck is as wide", {"bottleneck_features": 32}),
    "align": Special("as wide as its images", {"projection_dim": 160}),
    "pi0": Special("masks cameras", plan={"image_form": "frames", "tile_mask": True}),
    "granite_docling": Special("masks tiles", plan={"tile_mask": True}),
    "sam3_tracker": Special(
        "its maps have fixed sizes", {"vision_config.backbone_feature_sizes": _PYRAMID}
    ),
    "xlstm": Special("its state is for one step", plan={"given": {"use_cache"}}),
    "pp_doclayout_v3": Special(
        "masks are as wide", {"mask_feature_channels": [32, 32], "x4_feat_dim": 16}
    ),
    "qwen3_asr": Special("reads windows of 100 frames", plan={"frames": 100}),
    "qwen3_asr_encoder": Special("reads windows of 100 frames", plan={"frames": 100}),
    "mllama_vision_model": Special("joins six layers", {"vision_output_dim": 192}),
    "flava": Special("its heads need a second image", prefer="FlavaModel"),
    "qwen2_audio": Special("one token stands for a recording", plan={"placeholders": {"audio": 2}}),
    "blip-2": Special(
        "one token stands for each query",
        {"num_query_tokens": 4},
        plan={"placeholders": {"image": 8}},
    ),
    "instructblip": Special(
        "one token stands for each query",
        {"num_query_tokens": 4},
        plan={"placeholders": {"image": 8}},
    ),
    "instructblipvideo": Special(
        "one token stands for each query of a frame",
        {"num_query_tokens": 4},
        plan={"placeholders": {"video": 16}},
    ),
    "superglue": Special("matches in a few rounds", {"sinkhorn_iterations": 5}),
    "reformer": Special("cuts the text into chunks", {"axial_pos_shape": [3, 4]}, {"length": 12}),
    "sam2": Special("its maps have fixed sizes", plan={"side": (64, 64)}),
    "dots3_note_text": Special(
        "sizes of windowed layers have names of their own",
        {
            "sliding_window": 4,
            "swa_num_attention_heads": 8,
            "swa_num_key_value_heads": 8,
            "swa_q_lora_rank": 16,
            "swa_kv_lora_rank": 16,
            "swa_head_dim": 16,
            "swa_qk_nope_head_dim": 8,
            "swa_v_head_dim": 8,
        },
    ),
    "qwen3_omni_moe_talker_code_predictor": Special(
        "its parent embeds the codes",
        plan={"given": {"inputs_embeds"}},
        skip=frozenset({"input_ids"}),
        prefer="Qwen3OmniMoeTalkerCodePredictorModel",
    ),
    "mistral_large4_text": Special(
        "each layer names the layer whose keys it uses", {"kv_source_layers": [0, 1, 2, 3, 4, 5]}
    ),
    "granite_speech5_encoder": Special(_UNGROUPED, {"num_key_value_heads": 4}),
    "nemotron3_5_transcribe_asr_audio": Special(_UNGROUPED, {"num_key_value_heads": 4}),
    "nemotron3_5_transcribe_word_timestamp": Special(_UNGROUPED, {"num_key_value_heads": 4}),
    "nemotron3_diarization_audio": Special(_UNGROUPED, {"num_key_value_heads": 4}),
    "unlimited_ocr_text": Special(_UNGROUPED, {"num_key_value_heads": 4}),
}
