"""What to do about data that a capture lacks: one text for every place that shows it.

A remedy is keyed by a code of `unavailable.CODES`, or by a cause of its own where one
code has several (`cupti_…`). Empty pages and reports quote it. Sentences that are used
in the `Unavailable` of several modules have names here.
"""

from __future__ import annotations

from typing import Final

import msgspec

ALLOW_DEVICE_TRACER: Final = (
    "Give the process the right to trace the GPU (docs/errors/no_device_activity.md), "
    "and record again with the device tracer on."
)
COMPILE_FOR_LINES: Final = (
    "Compile the step (`jit_compile=True`, `jax.jit`) to see source lines."
)
COPY_AGAIN: Final = "Copy the whole file again, or record again."
COUNT_MATRIX_INSTRUCTIONS: Final = (
    "Measure the kernels with a counter of matrix instructions."
)
DESCRIBE_MODEL: Final = (
    "Record with stepscope, which describes Keras models and PyTorch modules."
)
NAME_RANGES: Final = (
    "Name ranges of the program: `with ss.Trace('load'):`, or the annotation of the "
    "framework."
)
OTHER_MACHINE: Final = (
    "Record on a machine whose operating system tells it: Linux, outside of sandboxes."
)
RECORD_HLO: Final = (
    "Record a program that XLA compiles (JAX, or tf.function with jit_compile=True) "
    "with enable_hlo_proto on."
)
RECORD_OP_MEMORY: Final = (
    "Record memory with the profiler of the framework where it can "
    "(`profile_memory=True`)."
)
RECORD_WITH_STEPSCOPE: Final = "Record with stepscope: `stepscope run -- python …`."
WRITE_MEMORY: Final = (
    "Write a memory snapshot (PyTorch) or a device memory profile (JAX), and open it."
)
OTHER_DEVICE_TRACER: Final = (
    "Record with a device tracer that writes this, such as that of another release of "
    "the framework."
)


class Remedy(msgspec.Struct, frozen=True, kw_only=True):
    """A way out.

    Attributes:
        sentence: What to do, in one sentence.
        commands: Lines to copy, in order; empty where none is needed.
    """

    sentence: str
    commands: tuple[str, ...] = ()


#: Gives ordinary users the GPU's performance counters, which the driver otherwise
#: reserves for administrators. Older drivers refuse activity tracing with the same
#: error (docs/errors/no_device_activity.md).
_DRIVER_OPTION: Final = "options nvidia NVreg_RestrictProfilingToAdminUsers=0"
#: Runs a program as the same user, with one right more. What the loader reads, sudo
#: drops.
_FOR_A_PROCESS: Final = (
    'sudo -E env "PATH=$PATH" "LD_LIBRARY_PATH=$LD_LIBRARY_PATH" '
    "setpriv --inh-caps=+perfmon --ambient-caps=+perfmon "
    "--reuid=$(id -u) --regid=$(id -g) --init-groups stepscope run -- python train.py"
)
#: The patch takes the place of a security context that the container has.
_FOR_A_POD: Final = (
    'kubectl patch deployment NAME --type=json --patch=\'[{"op": "add", "path": '
    '"/spec/template/spec/containers/0/securityContext", "value": '
    '{"capabilities": {"add": ["PERFMON"]}}}]\''
)

REMEDIES: Final[dict[str, Remedy]] = {
    "NO_DEVICE_PLANE": Remedy(
        sentence="If the program used a GPU, its device tracer did not start: put "
        "libcupti on the loader path and record again.",
        commands=(
            'export LD_LIBRARY_PATH="$CUDA_HOME/extras/CUPTI/lib64:$LD_LIBRARY_PATH"',
        ),
    ),
    "NO_DEVICE_EVENTS": Remedy(
        sentence="Allow the process to trace the GPU, stop other GPU profilers, and "
        "record again with the device tracer on.",
        commands=(
            f"echo '{_DRIVER_OPTION}' | sudo tee /etc/modprobe.d/nvidia-profiling.conf",
            "dcgmi profile --pause",
        ),
    ),
    "cupti_privilege": Remedy(
        sentence="Give the right to profile to one process, or to its container or "
        "pod, or let every user profile (reload the driver afterwards). Drivers "
        "before 565 ask for SYS_ADMIN where PERFMON stands here.",
        commands=(
            _FOR_A_PROCESS,
            "docker run --cap-add=PERFMON …",
            _FOR_A_POD,
            f"echo '{_DRIVER_OPTION}' | sudo tee /etc/modprobe.d/nvidia-profiling.conf",
        ),
    ),
    "cupti_busy": Remedy(
        sentence="Only one tool at a time may trace a GPU: stop the other profiler, or "
        "pause DCGM's profiling.",
        commands=("dcgmi profile --pause",),
    ),
    "cupti_missing": Remedy(
        sentence="Put the libcupti of the framework's CUDA version on the loader path.",
        commands=(
            'export LD_LIBRARY_PATH="$CUDA_HOME/extras/CUPTI/lib64:$LD_LIBRARY_PATH"',
        ),
    ),
    "NO_STEPS": Remedy(
        sentence="Mark each training step, with the fetching of its batch inside.",
        commands=(
            "with tf.profiler.experimental.Trace('train', step_num=i, _r=1):  # TF",
            "with jax.profiler.StepTraceAnnotation('train', step_num=i):  # JAX",
            "prof.step()  # PyTorch, after each step",
            "with ss.StepTrace(i):  # any, with import stepscope as ss",
        ),
    ),
    "HOST_LEVEL": Remedy(
        sentence="Record again with host tracer level 2.",
        commands=("tf.profiler.experimental.ProfilerOptions(host_tracer_level=2)",),
    ),
    "LOST_EVENTS": Remedy(
        sentence="Record a shorter window, or a lower host tracer level.",
    ),
    "SINGLE_SAMPLE": Remedy(sentence="Record at least three steps, better ten."),
    "NO_SAMPLES": Remedy(sentence="Record at least three steps, better ten."),
    "NO_HLO": Remedy(
        sentence="Record again while the compiled program runs, with the HLO protos "
        "enabled in the profiler's options.",
    ),
    "NO_TFDATA_EVENTS": Remedy(
        sentence="Record again at host tracer level 2; a program that reads its data "
        "another way has none.",
    ),
    "CORRUPT": Remedy(
        sentence="Copy the file again in binary mode, or record again.",
    ),
}

#: Why a program that uses a GPU shows no device activity, most frequent first.
CAUSES_OF_SILENT_DEVICES: Final = ("cupti_privilege", "cupti_busy", "cupti_missing")
