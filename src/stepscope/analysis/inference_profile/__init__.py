"""Inference profile: latency of requests, and what it consists of."""

from stepscope.analysis.inference_profile.profile import (
    NEEDS,
    InferenceProfileResult,
    analyse,
)
from stepscope.analysis.options.inference_profile import Options

__all__ = ["NEEDS", "InferenceProfileResult", "Options", "analyse"]
