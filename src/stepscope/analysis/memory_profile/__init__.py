"""Memory profile: what was allocated, when, and by which op."""

from stepscope.analysis.memory_profile.profile import (
    NEEDS,
    MemoryProfileResult,
    Options,
    analyse,
)

__all__ = ["NEEDS", "MemoryProfileResult", "Options", "analyse"]
