"""Memory profile: what was allocated, when, and by which op."""

from stepscope.analysis.memory_profile.profile import (
    NEEDS,
    MemoryProfileResult,
    analyse,
)
from stepscope.analysis.options import MemoryProfileOptions as Options

__all__ = ["NEEDS", "MemoryProfileResult", "Options", "analyse"]
