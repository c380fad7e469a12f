"""Locating NVIDIA's profilers, and their command lines for a program.

Definition: docs/nsight.md.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from stepscope import nvidia
from stepscope.errors import BadUsage

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_PRODUCTS: Final = {"ncu": "Nsight Compute", "nsys": "Nsight Systems"}
#: Programs that use NVIDIA's tracing interface (CUPTI) themselves.
_TRACERS: Final = frozenset({"stepscope", "nsys", "ncu", "nvprof"})


class NcuPlan(NamedTuple):
    """What Nsight Compute is to measure.

    Attributes:
        kernels: Function names of the kernels to measure; empty for all kernels.
        skip: Number of launches of these kernels before the first measured launch.
        launches: Number of launches to measure; None for all.
        range: NVTX range that must contain the launch; None for anywhere.
        profiler_api: Whether to measure only between the program's own calls of
            cudaProfilerStart and cudaProfilerStop.
    """

    output: str
    sections: str = "full"
    kernels: tuple[str, ...] = ()
    skip: int = 0
    launches: int | None = None
    range: str | None = None
    profiler_api: bool = False


class NsysPlan(NamedTuple):
    """What Nsight Systems is to record.

    Attributes:
        range: NVTX range to record; None for the whole program.
        duration_s: Seconds to record; None to record until the program ends.
        profiler_api: Whether to record between the program's own calls of
            cudaProfilerStart and cudaProfilerStop; ignored if `range` is given.
    """

    output: str
    range: str | None = None
    delay_s: int = 0
    duration_s: int | None = None
    profiler_api: bool = False


def find_tool(name: str) -> str:
    """Return the path of `ncu` or `nsys`."""
    path = nvidia.find_tool(name)
    if path is not None:
        return path
    raise BadUsage(
        f"{_PRODUCTS[name]} ({name}) is not on this machine. It comes with the CUDA "
        f"toolkit, or alone from developer.nvidia.com; put the folder of {name} on PATH"
    )


def refuse_tracers(command: Sequence[str], name: str) -> None:
    """Refuse a command that would trace the GPU itself.

    Raises:
        BadUsage: Only one tool at a time can use NVIDIA's tracing interface.
    """
    names = [Path(word).name for word in command]
    # After an interpreter, the second word is a script, which may be a tracer.
    first = names[: 2 if names and names[0].startswith("python") else 1]
    inner = next((word for word in first if word in _TRACERS), None)
    for index, word in enumerate(names[:-1]):
        if word == "-m" and names[index + 1].partition(".")[0] in _TRACERS:
            inner = names[index + 1]
    if inner is not None:
        raise BadUsage(
            f"{inner} would trace the GPU as well, and only one tool at a time can "
            f"(CUPTI). Give the program itself: stepscope {name} -- COMMAND"
        )


def ncu_command(tool: str, plan: NcuPlan, command: Iterable[str]) -> list[str]:
    """Return the command line of Nsight Compute for a program."""
    chosen: list[str] = []
    if plan.kernels:
        chosen += ["--kernel-name", f"regex:^(?:{'|'.join(plan.kernels)})$"]
    if plan.range is not None:
        chosen += ["--nvtx", "--nvtx-include", f"{plan.range}/"]
    if plan.profiler_api:
        chosen += ["--profile-from-start", "off"]
    if plan.skip:
        chosen += ["--launch-skip", str(plan.skip)]
    if plan.launches is not None:
        chosen += ["--launch-count", str(plan.launches)]
    return [
        *(tool, "--set", plan.sections, "--target-processes", "all"),
        *chosen,
        *("--force-overwrite", "--export", plan.output),
        *command,
    ]


def nsys_command(tool: str, plan: NsysPlan, command: Iterable[str]) -> list[str]:
    """Return the command line of Nsight Systems for a program."""
    chosen: list[str] = []
    if plan.range is not None:
        chosen += [
            *("--capture-range=nvtx", f"--nvtx-capture={plan.range}"),
            "--capture-range-end=stop",
        ]
    elif plan.profiler_api:
        chosen += ["--capture-range=cudaProfilerApi", "--capture-range-end=stop"]
    if plan.delay_s:
        chosen.append(f"--delay={plan.delay_s}")
    if plan.duration_s is not None:
        chosen.append(f"--duration={plan.duration_s}")
    return [
        *(tool, "profile", "--trace=cuda,nvtx,osrt,cudnn,cublas", "--sample=none"),
        *("--cpuctxsw=none", "--export=sqlite", "--force-overwrite=true"),
        # Do not wait for processes that the program leaves behind.
        "--wait=primary",
        *chosen,
        f"--output={plan.output}",
        *command,
    ]


def nsys_environment(environment: dict[str, str]) -> dict[str, str]:
    """Return the environment that lets Nsight Systems record any NVTX range.

    By default Nsight Systems finds only registered names; frameworks register none.
    """
    return {"NSYS_NVTX_PROFILER_REGISTER_ONLY": "0", **environment}
