"""GPU kernel stats: time, launch shape and use of the device of each kernel."""

from stepscope.analysis.kernel_stats.stats import NEEDS, KernelStatsResult, analyse
from stepscope.analysis.options.kernel_stats import Options

__all__ = ["NEEDS", "KernelStatsResult", "Options", "analyse"]
