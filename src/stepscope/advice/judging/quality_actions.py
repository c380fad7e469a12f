"""What to do about what a recording lacks, by the stable word of the flaw.

Definition: docs/advice/capture_quality.md.
"""

from __future__ import annotations

from typing import Final

from stepscope.advice.finding import Action
from stepscope.remedies import Remedy

ACTIONS: Final = (
    Action(
        cause="queued_before",
        framework="any",
        text="Wait for the device before the recording begins: it may still have "
        "worked on what was launched earlier. Else record with the nodes of replayed "
        "graphs traced one by one.",
    ),
    Action(
        cause="launched_before",
        framework="any",
        text="Wait for the device before the recording begins: it may still have "
        "worked on what was launched earlier.",
    ),
    Action(
        cause="waiting",
        framework="any",
        text="No graph was replayed whose nodes could be missing, and no recording "
        "shows the cause. Other programs may use the device, which then takes turns: "
        "see whether any do (`nvidia-smi`, `rocm-smi --showpids`). On Windows the "
        "driver may hand launches over in batches.",
    ),
    Action(
        cause="queued",
        framework="any",
        text="Record with the nodes of replayed graphs traced one by one, or once "
        "without graph replay.",
    ),
    Action(
        cause="queued",
        framework="any",
        text="Nsight Systems traces them where it is told to.",
        code="nsys profile --cuda-graph-trace=node …",
        recorder="nsight",
    ),
    Action(
        cause="outside",
        framework="any",
        text="Record while the device works: begin when the program has started its "
        "work, and stop before it ends.",
    ),
    Action(
        cause="outside",
        framework="any",
        text="Nsight Systems is told so by a time or by a range of the program.",
        code="stepscope nsys --delay-s 20 --duration-s 10 -- python train.py",
        recorder="nsight",
    ),
    Action(
        cause="unexplained",
        framework="any",
        text="Record the program's functions too, or annotate what the step does.",
        code="stepscope run -- python …",
        recorder="framework",
    ),
    Action(
        cause="unexplained",
        framework="any",
        text="Put NVTX ranges around what the step does, and record with `nsys profile "
        "--trace=cuda,nvtx,osrt`.",
        code="with nvtx.annotate('load'): …  # pip install nvtx",
        recorder="nsight",
    ),
    Action(
        cause="unexplained",
        framework="any",
        text="Of a program that is compiled, samples say which function runs; of a "
        "Python program `stepscope run -- python …` says it.",
        code="nsys profile --trace=cuda,nvtx,osrt --sample=process-tree …",
        recorder="nsight",
    ),
    Action(
        cause="unblocked",
        framework="any",
        text="Record samples of the cores and who had them: they say which function "
        "computes, or which thread had the core.",
        code="nsys profile --trace=cuda,nvtx,osrt --sample=process-tree "
        "--cpuctxsw=process-tree …",
        recorder="nsight",
    ),
    Action(
        cause="unblocked",
        framework="any",
        text="Put NVTX ranges around what the step does; of a Python program "
        "`stepscope run -- python …` says the function.",
        code="with nvtx.annotate('load'): …  # pip install nvtx",
        recorder="nsight",
    ),
    Action(
        cause="unexplained",
        framework="PyTorch",
        text="With PyTorch's own profiler, record stacks.",
        code="torch.profiler.profile(with_stack=True)",
        recorder="framework",
    ),
    Action(
        cause="unexplained",
        framework="JAX",
        text="With JAX's own profiler, trace Python.",
        code="options.python_tracer_level = 1; jax.profiler.start_trace(LOGDIR, "
        "profiler_options=options)",
        recorder="framework",
    ),
    Action(
        cause="eager",
        framework="TensorFlow",
        text="Put a step that runs op by op into one graph: what lies between its ops "
        "is then no Python.",
        code="@tf.function",
    ),
    Action(
        cause="damaged",
        framework="any",
        text="Copy the whole file again in binary, or record again.",
    ),
    Action(
        cause="annotate",
        framework="any",
        text=Remedy.ANNOTATE_UNKNOWN_TIME,
        recorder="framework",
    ),
    Action(
        cause="annotate",
        framework="any",
        text="Put NVTX ranges around what the program does in that time: its functions "
        "were recorded and do not say.",
        code="with nvtx.annotate('load'): …  # pip install nvtx",
        recorder="nsight",
    ),
    Action(
        cause="short",
        framework="any",
        text=Remedy.LONGER_FOR_LOOKS,
    ),
    Action(
        cause="devices",
        framework="any",
        text="Record a shorter window, so that the records of all devices fit.",
    ),
    Action(
        cause="silent",
        framework="any",
        recorder="nsight",
        text="Record with calls of CUDA traced, and let the program run to its end.",
        code="nsys profile --trace=cuda,nvtx …",
    ),
    Action(
        cause="silent",
        framework="any",
        recorder="framework",
        text="Let the device tracer run, and record again.",
    ),
    Action(
        cause="unread",
        framework="any",
        text="Judge the device's own work with the profiler of its vendor, and report "
        "the file's kind.",
    ),
    Action(
        cause="clocks",
        framework="any",
        text="Record host and device with one profiler in one recording, and leave the "
        "times in its file as they are.",
    ),
    Action(
        cause="lost",
        framework="any",
        text="Record a shorter window, so that no record is dropped.",
    ),
    Action(
        cause="ranks",
        framework="any",
        text="Record the other ranks over the same steps and open them together.",
    ),
    Action(
        cause="no_launch",
        framework="any",
        text="Begin the recording a step earlier, so that the calls that launch its "
        "first work are in it.",
    ),
)
