"""GPU kernel stats: time, launch shape and use of the device of each kernel."""

from stepscope.analysis.kernel_stats.stats import NEEDS, KernelStatsResult, analyse
from stepscope.analysis.options import KernelStatsOptions as Options

__all__ = ["NEEDS", "KernelStatsResult", "Options", "analyse"]
