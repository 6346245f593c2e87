"""The options of libvmaf's feature extractors, as the FFmpeg of the wheel knows them.

libvmaf passes without a word over an option it does not know, and over settings of an extractor it does not
have. The engine refuses both by name (ADR 0009), so it must know them. Options whose value is free text, such
as the folder for heat maps, are left out: they make files, or cannot be checked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["FEATURE_OPTIONS"]

_FLOAT_SSIM: Final = frozenset({"clip_db", "enable_db", "enable_lcs"})
_ADM: Final = frozenset(
    {
        "adm_csf_diag_scale",
        "adm_csf_mode",
        "adm_csf_scale",
        "adm_dlm_weight",
        "adm_enhn_gain_limit",
        "adm_min_val",
        "adm_noise_weight",
        "adm_norm_view_dist",
        "adm_ref_display_height",
        "adm_skip_scale0",
        "debug",
    }
)
_MOTION: Final = frozenset(
    {
        "debug",
        "motion_blend_factor",
        "motion_blend_offset",
        "motion_force_zero",
        "motion_fps_weight",
        "motion_max_val",
    }
)
_SPEED: Final = frozenset({"speed_max_val", "speed_nn_floor", "speed_prescale", "speed_sigma_nn"})
_VIF: Final = frozenset({"debug", "vif_enhn_gain_limit", "vif_skip_scale0"})

FEATURE_OPTIONS: Final[Mapping[str, frozenset[str]]] = {
    "adm": _ADM | {"adm_skip_aim"},
    "cambi": frozenset(
        {
            "cambi_eotf",
            "cambi_high_res_speedup",
            "cambi_max_val",
            "cambi_topk",
            "cambi_vis_lum_threshold",
            "enc_bitdepth",
            "enc_height",
            "enc_width",
            "eotf",
            "full_ref",
            "max_log_contrast",
            "src_height",
            "src_width",
            "topk",
            "tvi_threshold",
            "window_size",
        }
    ),
    "ciede": frozenset(),
    "float_adm": _ADM
    | {
        "adm_adm3_apply_hm",
        "adm_bypass_cm",
        "adm_f1s0",
        "adm_f1s1",
        "adm_f1s2",
        "adm_f1s3",
        "adm_f2s0",
        "adm_f2s1",
        "adm_f2s2",
        "adm_f2s3",
        "adm_p_norm",
        "adm_skip_aim_scale",
    },
    "float_ansnr": frozenset(),
    "float_moment": frozenset(),
    "float_motion": _MOTION | {"motion_add_scale1", "motion_add_uv", "motion_filter_size"},
    "float_ms_ssim": _FLOAT_SSIM,
    "float_psnr": frozenset(),
    "float_ssim": _FLOAT_SSIM | {"scale"},
    "float_vif": _VIF
    | {
        "vif_kernelscale",
        "vif_prescale",
        "vif_prescale_method",
        "vif_scale1_min_val",
        "vif_scale2_min_val",
        "vif_scale3_min_val",
        "vif_sigma_nsq",
    },
    "motion": _MOTION | {"motion_five_frame_window", "motion_moving_average"},
    "psnr": frozenset({"enable_apsnr", "enable_chroma", "enable_mse", "min_sse", "reduced_hbd_peak"}),
    "psnr_hvs": frozenset(),
    "speed_chroma": _SPEED | {"speed_weight_var_mode"},
    "speed_temporal": _SPEED | {"speed_use_ref_diff"},
    "vif": _VIF,
}
"""Each extractor's options by the extractor's name."""
