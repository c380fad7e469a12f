"""GPU kernel stats: time, launch shape and use of the device of each kernel."""

from stepscope.analysis.kernel_stats.stats import (
    NEEDS,
    KernelStatsResult,
    Options,
    analyse,
)

__all__ = ["NEEDS", "KernelStatsResult", "Options", "analyse"]
