"""What TensorFlow itself computed at capture time, as an oracle for tests and sceptics.

Its classification counts copies as compute and takes the device's span for the step
(spec: tools, section 5.4). The numbers here follow it to the nanosecond; the tools'
own numbers differ where it is wrong, and their pages say how.
"""

import stepscope.analysis.input_pipeline_analyzer
import stepscope.analysis.overview_page  # noqa: F401 - before what uses its parts
