"""What TensorFlow itself computed at capture time, as an oracle for tests and sceptics.

Its classification counts copies as compute and takes the device's span for the step
(spec: tools, section 5.4). The numbers here follow it to the nanosecond; the tools'
own numbers differ where it is wrong, and their pages say how.
"""

from stepscope.analysis.compat_tensorflow.input_pipeline import (
    compat_device_side,
    compat_input_ops,
)
from stepscope.analysis.compat_tensorflow.placement import compat_placement
from stepscope.analysis.compat_tensorflow.steps import CompatStep, compat_steps
from stepscope.analysis.compat_tensorflow.summary import compat_summary

__all__ = [
    "CompatStep",
    "compat_device_side",
    "compat_input_ops",
    "compat_placement",
    "compat_steps",
    "compat_summary",
]
