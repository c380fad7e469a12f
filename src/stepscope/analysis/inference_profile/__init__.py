"""Inference profile: latency of requests, and what the latency consists of."""

from stepscope.analysis.inference_profile.profile import (
    NEEDS,
    InferenceProfileResult,
    analyse,
)
from stepscope.analysis.options import InferenceProfileOptions as Options

__all__ = ["NEEDS", "InferenceProfileResult", "Options", "analyse"]
