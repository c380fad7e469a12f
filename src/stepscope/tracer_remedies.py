"""Remedies that ask for tracers, and what they say where those ran already.

A sentence that asks for a tracer is declared here once, with the levels that it asks
for. Where a recording is known to have had them, asking again would help nobody: the
declared alternative is said instead. Other recorders know no levels: of them it asks
for their own options.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from stepscope.frozen import Frozen
from stepscope.nsight_remedies import NSIGHT, nsight_remedy
from stepscope.remedies import (
    COMPILE_FOR_LINES,
    DESCRIBE_MODEL,
    RECORD_HLO,
    RECORD_OP_MEMORY,
    WRITE_MEMORY,
)

if TYPE_CHECKING:
    from collections.abc import Collection

#: Of time that nothing names although the program's functions were recorded.
ANNOTATE_UNKNOWN_TIME: Final = (
    "Annotate what the program does in that time (`with ss.Trace('name'):`): its "
    "functions were recorded and do not say."
)

#: Of kernels whose ops are known, and say no more than their names do.
LOOK_AT_OWN_OPS: Final = (
    "Look at what these ops of the program's own compute: nothing that can be recorded "
    "says it."
)

#: Of a recording in which the program's functions were looked at too seldom.
LONGER_FOR_LOOKS: Final = (
    "Record for a second or longer: the program's functions are known from looks at "
    "its stack, some 100 a second, and this recording holds too few to say what the "
    "time is spent on."
)


class Tracers(msgspec.Struct, frozen=True, kw_only=True):
    """Levels of the tracers in force while recording; null where not known.

    Attributes:
        host: Level of the host tracer.
        device: Level of the device tracer.
        python: Level of the Python tracer.
        recorder: Whose options these are: `kineto`, `nsight`, or null for those of
            TensorFlow, JAX and stepscope.
    """

    host: int | None = None
    device: int | None = None
    python: int | None = None
    recorder: str | None = None


class _Wanted(Frozen, frozen=True, eq=True):
    """A tracer from a level on, in words."""

    tracer: str
    level: int
    words: str

    def is_in_force(self, tracers: Tracers) -> bool:
        level: int | None = getattr(tracers, self.tracer)
        return level is not None and level >= self.level


class _Asking(Frozen, frozen=True, eq=True):
    """A remedy that asks for tracers.

    Attributes:
        sentence: What to do; `{}` stands for the tracers that are lacking.
        wanted: The tracers that it asks for.
        otherwise: What to do where all of them were in force.
    """

    sentence: str
    wanted: tuple[_Wanted, ...]
    otherwise: str

    def beside(self, tracers: Tracers, own: str | None = None) -> str:
        """Return what to do; `own` is the sentence of another recorder."""
        lacking = [it for it in self.wanted if not it.is_in_force(tracers)]
        if not lacking:
            return self.otherwise
        if own is not None:
            return own
        words = _OPTIONS.get(tracers.recorder or "", {})
        *first, last = (words.get(it.tracer, it.words) for it in lacking)
        return self.sentence.format(f"{', '.join(first)} and {last}" if first else last)


_HOST_ON: Final = _Wanted("host", 1, "the host tracer")
_HOST: Final = _Wanted("host", 2, "host tracer level 2")
_HOST_WITH_SHAPES: Final = _Wanted("host", 3, "host tracer level 3")
_DEVICE: Final = _Wanted("device", 1, "the device tracer")
_PYTHON: Final = _Wanted("python", 1, "the Python tracer")

#: Recorder → tracer → the option that turns it on there.
_OPTIONS: Final = {
    "kineto": {
        "host": "`ProfilerActivity.CPU`",
        "device": "`ProfilerActivity.CUDA`",
        "python": "`with_stack=True`",
    },
    NSIGHT: {
        "host": "ranges of the framework (`torch.autograd.profiler.emit_nvtx()`)",
        "device": "`nsys profile --trace=cuda`",
        "python": "NVTX ranges around its functions",
    },
}
_WITH_STACK: Final = "Record with `with_stack=True`."
_NAME_FUNCTIONS: Final = (
    "Put NVTX ranges around the program's functions "
    "(`with torch.cuda.nvtx.range('load'):`), and record with `nsys profile "
    "--trace=cuda,nvtx,osrt`."
)
#: Recorder → name of a remedy → what it is there, where the option alone is not it.
_OWN: Final = {
    "kineto": {
        "RECORD_ALLOCATIONS": "Record with `profile_memory=True`.",
        "RECORD_CALLS": "Record with `with_stack=True`, or with stepscope, which "
        "samples functions.",
        "RECORD_FETCHES": "Record with `with_stack=True`, or put a "
        "`torch.profiler.record_function` around the making of the batch.",
        "RECORD_FRAMES": _WITH_STACK,
        "RECORD_KERNEL_OPS": "Record with `ProfilerActivity.CPU` beside "
        "`ProfilerActivity.CUDA`, so that each kernel has its op.",
        "RECORD_LINES": _WITH_STACK,
        "RECORD_PIPELINE": "Read the input through a `DataLoader`, or put a "
        "`torch.profiler.record_function('load_batch')` around the fetch.",
        "RECORD_PIPELINE_STAGES": "The input pipeline analyzer shows how long the "
        "program waits for it; a graph needs a tf.data pipeline.",
        "RECORD_SHAPES": "Record with `record_shapes=True`.",
    },
    NSIGHT: {
        "RECORD_ALLOCATIONS": "Record with `nsys profile --cuda-memory-usage=true`, or "
        "tensors with the framework's own profiler: PyTorch's with "
        "`profile_memory=True`.",
        "RECORD_CALLS": _NAME_FUNCTIONS,
        "RECORD_FETCHES": "Put an NVTX range named `load_batch` around the making of "
        "the batch.",
        "RECORD_FRAMES": _NAME_FUNCTIONS,
        "RECORD_KERNEL_OPS": "Run the steps inside of "
        "`torch.autograd.profiler.emit_nvtx()`, so that each kernel has its op.",
        "RECORD_LINES": "Record with the framework's own profiler: PyTorch's with "
        "`with_stack=True`.",
        "RECORD_PIPELINE": "Put an NVTX range named `load_batch` around the fetch.",
        "RECORD_PIPELINE_STAGES": "The input pipeline analyzer shows how long the "
        "program waits for it; a graph needs a tf.data pipeline.",
        "RECORD_SHAPES": "Record with the framework's own profiler: PyTorch's with "
        "`record_shapes=True`.",
    },
}
#: Name → the remedy.
_ASKING: Final = {
    "RECORD_ALLOCATIONS": _Asking(
        "Record at {} a program whose allocator reports: TensorFlow on GPU or CPU, "
        "JAX on AMD GPUs or TPUs, PyTorch with profile_memory=True.",
        (_HOST,),
        otherwise="Record a program whose allocator reports: TensorFlow on GPU or "
        "CPU, JAX on AMD GPUs or TPUs, PyTorch with profile_memory=True.",
    ),
    "RECORD_CALLS": _Asking(
        "Record with samples of functions, as stepscope does by default "
        "(python_sampling_hz=100), or with {} (python_tracer_level=1).",
        (_PYTHON,),
        otherwise="Record while Python code runs on the threads of the steps.",
    ),
    "RECORD_EXECUTIONS": _Asking(
        "Record with {}, and some steps of the program.",
        (_HOST,),
        otherwise="Record while steps of the program run: nothing else was lacking.",
    ),
    "RECORD_FETCHES": _Asking(
        "Record with {} on, or annotate the making of the batch inside the step.",
        (_PYTHON,),
        otherwise="Annotate the making of the batch inside the step.",
    ),
    "RECORD_FRAMES": _Asking(
        "Record with {} on (python_tracer_level=1).",
        (_PYTHON,),
        otherwise="Record while Python code runs on the threads of the steps.",
    ),
    "RECORD_FUNCTIONS": _Asking(
        "Record with {} where the program has such calls.",
        (_HOST,),
        otherwise="Nothing is wrong if the program calls no graph functions.",
    ),
    "RECORD_KERNEL_OPS": _Asking(
        "Record with {}, in a framework build that annotates kernels with their ops.",
        (_DEVICE,),
        otherwise="Record with a framework build that annotates kernels with their "
        "ops.",
    ),
    "RECORD_LAUNCHES": _Asking(
        "Record launch calls as well: with {} on, in the process that launches.",
        (_HOST_ON,),
        otherwise="Record the process that launches the work.",
    ),
    "RECORD_LINES": _Asking(
        "Record with {} on (`python_tracer_level=1`, `with_stack=True`), or compile "
        "the step (`jit_compile=True`, `jax.jit`).",
        (_PYTHON,),
        otherwise="Compile the step (`jit_compile=True`, `jax.jit`): programs tell "
        "the line of each op.",
    ),
    "RECORD_OPS": _Asking(
        "Record the ops of the host as well, with {}.",
        (_HOST,),
        otherwise="Look at what the launching thread did in the trace: no op was open.",
    ),
    "RECORD_OP_CALLS": _Asking(
        "Record with {}, outside of compiled programs.",
        (_HOST,),
        otherwise="Run the op outside of compiled programs, which have no event for "
        "it.",
    ),
    "RECORD_OP_MODES": _Asking(
        "Record with {}.",
        (_HOST,),
        otherwise="Nothing is wrong: ops of this program do not say it.",
    ),
    "RECORD_OP_NAMES": _Asking(
        "Record with {} on.",
        (_HOST, _DEVICE),
        otherwise="Record while steps of the program run: nothing else was lacking.",
    ),
    "RECORD_PIPELINE": _Asking(
        "Record a program that reads its input through tf.data or a DataLoader, with "
        "{} and dataset ops included.",
        (_HOST,),
        otherwise="Nothing is wrong if the program reads its input in another way; "
        "else record for longer than one batch takes.",
    ),
    "RECORD_PIPELINE_STAGES": _Asking(
        "The input pipeline analyzer shows how long the program waits for it; a graph"
        " needs a tf.data pipeline, recorded with {}.",
        (_HOST,),
        otherwise="The input pipeline analyzer shows how long the program waits for "
        "it; a graph needs a tf.data pipeline.",
    ),
    "RECORD_SHAPES": _Asking(
        "Record shapes with the profiler of the framework where it can "
        "(`record_shapes=True`, {}), or the HLO of compiled programs.",
        (_HOST_WITH_SHAPES,),
        otherwise="Record the HLO of compiled programs, which holds the shapes of all"
        " ops.",
    ),
    "RECORD_STAGE_PARAMETERS": _Asking(
        "Record at {}; not every release of the framework writes them.",
        (_HOST,),
        otherwise="Read them in the program: the framework's release did not write "
        "them.",
    ),
    "RECORD_UNKNOWN_TIME": _Asking(
        "Record again with {}.",
        (_HOST, _DEVICE, _PYTHON),
        otherwise=ANNOTATE_UNKNOWN_TIME,
    ),
    "RECORD_WHOLE_PIPELINE": _Asking(
        "Record again with {}, and for longer.",
        (_HOST,),
        otherwise="Record for longer, so that a whole call of the pipeline is in it.",
    ),
}
_TEXTS: Final = {name: it.beside(Tracers()) for name, it in _ASKING.items()}
#: Sentence where nothing is known of the tracers → name of the remedy.
_BY_TEXT: Final = {text: name for name, text in _TEXTS.items()}

RECORD_ALLOCATIONS: Final = _TEXTS["RECORD_ALLOCATIONS"]
RECORD_CALLS: Final = _TEXTS["RECORD_CALLS"]
RECORD_EXECUTIONS: Final = _TEXTS["RECORD_EXECUTIONS"]
RECORD_FETCHES: Final = _TEXTS["RECORD_FETCHES"]
RECORD_FRAMES: Final = _TEXTS["RECORD_FRAMES"]
RECORD_FUNCTIONS: Final = _TEXTS["RECORD_FUNCTIONS"]
RECORD_KERNEL_OPS: Final = _TEXTS["RECORD_KERNEL_OPS"]
RECORD_LAUNCHES: Final = _TEXTS["RECORD_LAUNCHES"]
RECORD_LINES: Final = _TEXTS["RECORD_LINES"]
RECORD_OPS: Final = _TEXTS["RECORD_OPS"]
RECORD_OP_CALLS: Final = _TEXTS["RECORD_OP_CALLS"]
RECORD_OP_MODES: Final = _TEXTS["RECORD_OP_MODES"]
RECORD_OP_NAMES: Final = _TEXTS["RECORD_OP_NAMES"]
RECORD_PIPELINE: Final = _TEXTS["RECORD_PIPELINE"]
RECORD_PIPELINE_STAGES: Final = _TEXTS["RECORD_PIPELINE_STAGES"]
RECORD_SHAPES: Final = _TEXTS["RECORD_SHAPES"]
RECORD_STAGE_PARAMETERS: Final = _TEXTS["RECORD_STAGE_PARAMETERS"]
RECORD_UNKNOWN_TIME: Final = _TEXTS["RECORD_UNKNOWN_TIME"]
RECORD_WHOLE_PIPELINE: Final = _TEXTS["RECORD_WHOLE_PIPELINE"]


_NOTHING: Final = "Nothing is to be done: "
_LINES_OF_JAX: Final = (
    "Record with the Python tracer on (`python_tracer_level=1`), or compile the step "
    "(`jax.jit`)."
)
_LINES_OF_TENSORFLOW: Final = (
    "Record with the Python tracer on (`python_tracer_level=1`), or compile the step "
    "(`jit_compile=True`)."
)
_NO_STAGES: Final = (
    "The input pipeline analyzer shows how long the program waits for its input, which "
    "has no stages."
)
#: Framework ("Python" is none) → a remedy → what it is where the program uses that one
#: alone; of two the second is said where the tracers that are asked for were in force.
_LINES_OF_TORCH: Final = (
    "Record with the Python tracer on (`python_tracer_level=1`, `with_stack=True`)."
)
_NO_LINES_OF_TORCH: Final = (
    f"{_NOTHING}these ops run outside of Python functions, as those of the backward "
    "pass do."
)
_OF_FRAMEWORK: Final[dict[str, dict[str, str | tuple[str, str]]]] = {
    "PyTorch": {
        "RECORD_ALLOCATIONS": "Record with `profile_memory=True`.",
        "RECORD_SHAPES": "Record with `record_shapes=True`.",
        "RECORD_PIPELINE": "Read the input through a `DataLoader` while recording.",
        "RECORD_PIPELINE_STAGES": _NO_STAGES,
        RECORD_HLO: f"{_NOTHING}PyTorch compiles no programs for XLA.",
        "RECORD_LINES": (_LINES_OF_TORCH, _NO_LINES_OF_TORCH),
        COMPILE_FOR_LINES: f"{_NOTHING}the model views have lines of PyTorch's ops.",
        RECORD_OP_MEMORY: "Record with `profile_memory=True`.",
        WRITE_MEMORY: "Write a memory snapshot "
        "(`torch.cuda.memory._dump_snapshot('memory.pickle')`), and open it.",
    },
    "JAX": {
        "RECORD_ALLOCATIONS": "Record on an AMD GPU or a TPU, whose allocators report, "
        "or write `jax.profiler.save_device_memory_profile('memory.prof')`, and open "
        "it.",
        "RECORD_SHAPES": "Record the HLO of compiled programs, which holds the shapes "
        "of all ops.",
        "RECORD_PIPELINE_STAGES": _NO_STAGES,
        RECORD_HLO: "Record while a compiled program runs, with enable_hlo_proto on.",
        "RECORD_LINES": (
            _LINES_OF_JAX,
            "Compile the step (`jax.jit`): programs tell the line of each op.",
        ),
        COMPILE_FOR_LINES: "Compile the step (`jax.jit`) to see source lines.",
        RECORD_OP_MEMORY: "Look at the memory profile: no allocation tells its op.",
        WRITE_MEMORY: "Write `jax.profiler.save_device_memory_profile('memory.prof')`, "
        "and open it.",
    },
    "TensorFlow": {
        "RECORD_ALLOCATIONS": (
            "Record with host tracer level 2 while the program allocates.",
            "Record while the program allocates.",
        ),
        "RECORD_SHAPES": "Record the HLO of compiled programs, which holds the shapes "
        "of all ops.",
        "RECORD_PIPELINE": (
            "Read the input through tf.data while recording, with host tracer level 2.",
            "Read the input through tf.data while recording.",
        ),
        "RECORD_LINES": (
            _LINES_OF_TENSORFLOW,
            "Compile the step (`jit_compile=True`): programs tell the line of each op.",
        ),
        COMPILE_FOR_LINES: "Compile the step (`jit_compile=True`) to see source lines.",
        RECORD_OP_MEMORY: "Look at the memory profile: no allocation tells its op.",
        WRITE_MEMORY: f"{_NOTHING}TensorFlow writes no such file.",
        RECORD_HLO: "Compile a function for XLA (`tf.function(jit_compile=True)`), and "
        "record with enable_hlo_proto on.",
    },
    "Python": {
        "RECORD_ALLOCATIONS": f"{_NOTHING}allocators of frameworks report, "
        "and the program uses none.",
        "RECORD_EXECUTIONS": "Record some steps of the program.",
        "RECORD_PIPELINE": "Put an annotation around the fetch of a batch: "
        "`with ss.Trace('load_batch'):`.",
        "RECORD_SHAPES": f"{_NOTHING}ops of frameworks have shapes, and "
        "the program uses none.",
        DESCRIBE_MODEL: f"{_NOTHING}models of frameworks are described, "
        "and the program uses none.",
        "RECORD_PIPELINE_STAGES": _NO_STAGES,
        RECORD_HLO: f"{_NOTHING}the program compiles nothing for XLA.",
    },
}


def remedy_for(remedy: str, frameworks: Collection[str]) -> str:
    """Return what to do in a program that uses one framework.

    Args:
        remedy: A sentence; one that is the same for all frameworks comes back as it is.
        frameworks: The frameworks that the program uses; "Python" where it uses none.
    """
    if len(frameworks) != 1:
        return remedy
    (framework,) = frameworks
    return _BY_TEXT_OF.get(framework, {}).get(remedy, remedy)


def depends_on_framework(remedy: str) -> bool:
    """Return whether a remedy is another one in a program of one framework."""
    return any(remedy in texts for texts in _BY_TEXT_OF.values())


def asks_for_nothing(remedy: str) -> bool:
    """Return whether what is missing is nothing that the program could have."""
    return remedy.startswith(_NOTHING)


def _forms(remedy: str, own: str | tuple[str, str]) -> dict[str, str]:
    """Return by what a remedy may say, whatever was in force, what is said instead."""
    lacking, in_force = (own, own) if isinstance(own, str) else own
    asking = _ASKING.get(remedy)
    if asking is None:
        return {remedy: lacking}
    levels = (None, 1, 2, 3)
    said = {asking.beside(Tracers(host=level)) for level in levels}
    return dict.fromkeys(said, lacking) | {asking.otherwise: in_force}


_BY_TEXT_OF: Final = {
    framework: {
        text: instead
        for remedy, own in remedies.items()
        for text, instead in _forms(remedy, own).items()
    }
    for framework, remedies in _OF_FRAMEWORK.items()
}


def asks_for_tracers(remedy: str) -> bool:
    """Return whether a remedy is one of those that ask for tracers."""
    return remedy in _BY_TEXT


def remedy_beside(remedy: str, tracers: Tracers) -> str:
    """Return what to do about a recording that was made with these tracers.

    Args:
        remedy: A sentence; one that asks for no tracer comes back as it is.
        tracers: What is known to have been in force.
    """
    name = _BY_TEXT.get(remedy)
    if name is None:
        return nsight_remedy(remedy) if tracers.recorder == NSIGHT else remedy
    own = _OWN.get(tracers.recorder or "", {}).get(name)
    if own is not None and tracers.recorder == NSIGHT:
        # Its own sentences ask for no tracer that may have been on already.
        return own
    return _ASKING[name].beside(tracers, own)
