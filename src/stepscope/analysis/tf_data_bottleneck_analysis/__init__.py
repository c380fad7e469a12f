"""tf.data bottleneck analysis: which stage of an input pipeline limits the pipeline."""

from stepscope.analysis.options import TfDataBottleneckAnalysisOptions as Options
from stepscope.analysis.tf_data_bottleneck_analysis.bottleneck import (
    NEEDS,
    TfDataBottleneckAnalysisResult,
    analyse,
)

__all__ = ["NEEDS", "Options", "TfDataBottleneckAnalysisResult", "analyse"]
