"""`launch.delay`: the host does not launch work in time.

Definition: docs/advice/launch_delay.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from stepscope.advice.finding import Action, Finding
from stepscope.advice.item import Item
from stepscope.advice.judging.fitting_actions import traits_of
from stepscope.advice.judging.owned import (
    OWNED_READS,
    Owned,
    judge_shares,
    owned_finding,
    shares_of,
)
from stepscope.advice.rule import Rule
from stepscope.advice.words import WAITING, Words
from stepscope.derive.facts.devices.launching import launch_signals, queue_signals
from stepscope.derive.facts.devices.set_up import set_up_signals
from stepscope.derive.facts.evidence import Fact
from stepscope.derive.facts.program_traits import annotation_names, program_traits
from stepscope.unavailable import Unavailable
from stepscope.units import PS_PER_US

if TYPE_CHECKING:
    from stepscope.advice.signals import Signals
    from stepscope.derive.facts.devices.launching import LaunchSignals
    from stepscope.derive.facts.devices.set_up import SetUp
    from stepscope.derive.facts.program_traits import ProgramTraits
    from stepscope.derive.facts.step_shares import StepShares
    from stepscope.thresholds import Thresholds

_LAUNCH: Final = Owned(
    parts={"launch": ("launch",)},
    device=True,
    seen=("launch",),
    clocks=True,
    lost=True,
)
#: Where the host's own work is ops, the device waits for these as for launches.
_OPS_TOO: Final = msgspec.structs.replace(
    _LAUNCH, parts={**_LAUNCH.parts, "host_ops": ("host_compute",)}
)
#: Replayed graphs show no launch per node: beyond this share of the device's time the
#: rule cannot judge.
_GRAPH_SHARE: Final = 50.0

#: What to change, in order: each change launches more work with one call.
_ACTIONS: Final = (
    Action(
        cause="set_up",
        framework="any",
        text="Record later: let the program run a few steps before the recording "
        "begins, so that the first use of the device is over.",
    ),
    Action(
        cause="first_runs",
        framework="any",
        text="Record later: let the program, and the profiler, run a few steps before "
        "what is kept begins.",
    ),
    Action(
        cause="first_runs",
        framework="PyTorch",
        text="Skip the first steps.",
        code="torch.profiler.schedule(wait=2, warmup=2, active=6)",
        recorder="framework",
    ),
    Action(
        cause="set_up",
        framework="PyTorch",
        text="Skip the first steps.",
        code="torch.profiler.schedule(wait=2, warmup=2, active=6)",
        recorder="framework",
    ),
    Action(
        cause="set_up",
        framework="any",
        text="Nsight Systems is told so by a time or by a range of the program.",
        code="stepscope nsys --delay-s 20 --duration-s 10 -- python train.py",
        recorder="nsight",
    ),
    Action(
        cause="captured",
        framework="any",
        text="Record later: begin when the program has captured its graphs and replays "
        "them.",
    ),
    Action(
        cause="over",
        framework="any",
        text="Stop the recording when the device's last work is done: what the program "
        "does as it ends is no part of a step.",
    ),
    Action(
        cause="host_op",
        framework="any",
        text="Most of this time is the own work of one op: run it on the device, on "
        "tensors that are there, or ahead in another process.",
    ),
    Action(
        cause="several_ops",
        framework="TensorFlow",
        text="Put the whole training step into one graph, then let the compiler fuse "
        "its ops.",
        code="@tf.function(jit_compile=True)",
    ),
    Action(
        cause="one_graph",
        framework="TensorFlow",
        text="Let the compiler fuse the ops of the graph, which launches them one by "
        "one.",
        code="model.compile(…, jit_compile=True)  # or @tf.function(jit_compile=True)",
    ),
    Action(
        cause="any",
        framework="TensorFlow",
        text="Give the launching threads cores of their own.",
        env="TF_GPU_THREAD_MODE=gpu_private",
    ),
    Action(
        cause="one_program",
        framework="any",
        text="Launch the next step before this one's results are read: read losses and "
        "metrics back every few steps.",
    ),
    Action(
        cause="one_program",
        framework="JAX",
        text="Run several steps in one call of the compiled program.",
        code="state, losses = jax.lax.scan(train_step, state, batches)",
    ),
    Action(
        cause="several_calls",
        framework="JAX",
        text="Compile the whole step, outermost function first.",
        code="train_step = jax.jit(train_step)",
    ),
    Action(
        cause="engine",
        framework="PyTorch",
        text="A serving engine is at work: let it replay the graphs that it captures "
        "at its start, instead of launching kernel by kernel.",
        code="vllm serve …  # without --enforce-eager · "
        "sglang.launch_server …  # without --disable-cuda-graph",
    ),
    Action(
        cause="uncompiled",
        framework="PyTorch",
        text="Compile the step and replay it as one graph.",
        code="torch.compile(model, mode='reduce-overhead')",
    ),
    Action(
        cause="compiled",
        framework="PyTorch",
        text="What is compiled already is launched kernel by kernel: replay it as one "
        "graph.",
        code="torch.compile(model, mode='reduce-overhead')",
    ),
    Action(
        cause="small_work",
        framework="any",
        text="Give each kernel more to do: a larger batch, or several steps at once.",
    ),
)
_SET_UP: Final = (
    "The recording holds the first use of the device: for {set_up} of the time it "
    "waits while the host sets it up, most of it in {named}."
)
_FIRST_RUNS: Final = (
    "The recording holds first runs of ops, far longer than their later ones: for "
    "{first_runs} of the time the device waits for them, most of it for {named}."
)
_CAPTURED: Final = (
    "The recording holds the capture of a graph: for {captured} of the time what the "
    "host launches goes into the graph, and does not run."
)
_OVER: Final = tuple(
    "The recording goes on when the device's work is over: for {over} of the time the "
    f"host launches nothing any more{most}."
    for most in (", most of it in {named}", "")
)
_HOST: Final = tuple(
    "The host cannot feed the device: {share_percent} of the time it has nothing "
    f"queued{parts}{size}."
    for parts in (
        " (launching {launching}, host ops {host_ops}: {one_op} in {named})",
        " (launching {launching}, host ops {host_ops})",
        "",
    )
    for size in (", {ms_per_step} a step", "")
)
_WORDS: Final = Words(
    passed="launches keep up with the device",
    texts={
        **WAITING,
        ("fail", None): (_HOST, ("{pattern}",)),
        ("fail", "set_up"): ((_SET_UP,), _HOST),
        ("fail", "first_runs"): ((_FIRST_RUNS,), _HOST),
        ("fail", "captured"): ((_CAPTURED,), _HOST),
        ("fail", "over"): (_OVER, _HOST),
    },
    causes={
        "launch": "launching",
        "host_ops": "ops that run on the host",
        "slow_host": "each launch call takes the host long",
        "set_up": "calls that set the device up",
        "first_runs": "first runs of ops",
        "captured": "launches into a graph that is captured",
        "over": "the end of the program",
        "host_op": "one op's work on the host is most of it",
        "small_work": "kernels are shorter than two launches",
        "one_program": "each step is one call of a compiled program already",
    },
)
_ITEM: Final = Item(
    id="launch.delay",
    stage=3,
    title="the device waits for the host to launch its work",
    words=_WORDS,
    pages=("overview_page", "kernel_stats"),
    confirm="Look at the ranges: the kernel starts right after its own launch call.",
    refute="Double the batch: if the step takes twice as long, launches are not what "
    "it waits for.",
    explains=("gaps.between",),
    floors=("time the launching thread needs: not measured here",),
)
#: What no step has is the finding where it holds this share of it.
_MOST: Final = 0.5
#: A smaller share of the host's ops is not worth a word.
_WORTH_TELLING: Final = 0.5


def evaluate(signals: Signals, thresholds: Thresholds) -> Finding:
    """Judge the time in which a device has nothing to do for want of launches."""
    shares = shares_of(_ITEM, _LAUNCH, signals, thresholds)
    if isinstance(shares, Finding):
        return shares
    launching = signals.of(launch_signals)
    if isinstance(launching, Unavailable):
        return _ITEM.cannot_tell(launching)
    if launching.graph_percent >= _GRAPH_SHARE:
        return _ITEM.cannot_tell(_replayed(launching))
    owned = _OPS_TOO if shares.host_ops_lead() else _LAUNCH
    warn = thresholds.launch_warn
    verdict = judge_shares(
        owned, shares, thresholds, warn=warn, critical=thresholds.launch_critical
    )
    first_use = _first_use(signals, shares, owned)
    one_op = None
    if first_use is None:
        one_op = _one_op(shares, owned, signals.of(annotation_names))
        because = (
            *(() if one_op is None else ("host_op",)),
            *_because(launching, thresholds),
        )
    else:
        because = (first_use.kind,)
    return owned_finding(
        _ITEM,
        owned,
        signals,
        shares=shares,
        verdict=verdict,
        thresholds=thresholds,
        warn=warn,
        because=because,
        note=first_use.kind if first_use and verdict.status == "fail" else None,
        facts=(
            *_shares(owned, shares),
            *_facts(launching),
            *(_queued(signals, shares) if verdict.status == "fail" else ()),
            Fact(name="one_op", value=one_op, unit="percent"),
            *_outside_steps(first_use),
        ),
        # To record another part of the program makes no step shorter.
        **({} if first_use is None else {"parts": first_use.calls, "saving_ms": None}),
        inputs=("account", "launches"),
        actions=_actions(because, traits_of(signals))
        if verdict.status == "fail"
        else (),
    )


def waits_outside_steps(signals: Signals, shares: StepShares) -> bool:
    """Return whether a device waits for launches mostly where no step is.

    The host sets the device up, captures a graph, or is at its end.
    """
    owned = _OPS_TOO if shares.host_ops_lead() else _LAUNCH
    return _first_use(signals, shares, owned) is not None


def _first_use(signals: Signals, shares: StepShares, owned: Owned) -> SetUp | None:
    """Return what no step has, where it is most of what is judged."""
    found = signals.of(set_up_signals)
    if isinstance(found, Unavailable):
        return None
    first_use = found.get(shares.label)
    if first_use is None or first_use.percent < _MOST * shares.percent(*owned.owners):
        return None
    return first_use


def _outside_steps(found: SetUp | None) -> tuple[Fact, ...]:
    kinds = ("set_up", "first_runs", "captured", "over")
    return tuple(
        Fact(
            name=kind,
            value=found.percent if found is not None and found.kind == kind else None,
            unit="percent",
        )
        for kind in kinds
    )


def _one_op(
    shares: StepShares, owned: Owned, ranges: frozenset[str] | Unavailable
) -> float | None:
    """Return the share of one op that works on the host, where it is most of it all.

    A range of the program is no op, and stands for all that runs in it.
    """
    if owned is not _OPS_TOO:
        return None
    known = frozenset() if isinstance(ranges, Unavailable) else ranges
    ops = [
        one
        for one in shares.parts("host_compute")
        if one.function is None and one.name not in known
    ]
    largest = max((one.share_percent for one in ops), default=0.0)
    least = max(_MOST * shares.percent(*owned.owners), _WORTH_TELLING)
    return largest if largest >= least else None


def _shares(owned: Owned, shares: StepShares) -> tuple[Fact, ...]:
    ops = shares.percent("host_compute")
    told = owned is _OPS_TOO and ops >= _WORTH_TELLING
    return (
        Fact(name="launching", value=shares.percent("launch"), unit="percent"),
        Fact(
            name="host_ops",
            value=ops if told else None,
            note="counted where they are most of the host's own work",
            unit="percent",
        ),
    )


def _because(found: LaunchSignals, thresholds: Thresholds) -> tuple[str, ...]:
    """Return why launches come late, as far as the numbers show it."""
    call = found.median_call_ps
    tests = (
        ("slow_host", call is not None and call > thresholds.slow_launch_call.value),
        ("small_work", found.median_kernel_ps < 2 * found.latency_ps),
        ("one_program", found.one_program is True),
    )
    return tuple(name for name, holds in tests if holds)


def _actions(because: tuple[str, ...], traits: ProgramTraits) -> tuple[Action, ...]:
    """Return what to change; what is compiled need not be compiled once more."""
    for alone in ("set_up", "first_runs", "captured", "over", "host_op"):
        if alone in because:
            return tuple(action for action in _ACTIONS if action.cause == alone)
    causes = {"any", *because}
    if "one_program" not in because:
        of_torch = "compiled" if traits.compiled else "uncompiled"
        # An engine compiles and captures by itself, as far as its options let it.
        causes |= {"several_calls", "engine" if traits.engine else of_torch}
        causes.add("one_graph" if traits.graphed else "several_ops")
    return tuple(action for action in _ACTIONS if action.cause in causes)


def _facts(found: LaunchSignals) -> tuple[Fact, ...]:
    samples = found.latency_samples
    call = found.median_call_ps
    return (
        Fact(
            name="launch_latency",
            value=found.latency_ps / PS_PER_US,
            unit="us",
            note=f"median of {samples:,} launches onto an idle device"
            if samples
            else "assumed: fewer than 30 launches found the device idle",
        ),
        Fact(name="median_kernel", value=found.median_kernel_ps / PS_PER_US, unit="us"),
        Fact(
            name="median_launch_call",
            value=None if call is None else call / PS_PER_US,
            unit="us",
        ),
        Fact(name="kernels_per_step", value=found.kernels_per_step, unit="count"),
    )


def _queued(signals: Signals, shares: StepShares) -> tuple[Fact, ...]:
    """Return how long the queue is over a step, and which launches are unusual."""
    hosts = signals.of(queue_signals)
    found = None if isinstance(hosts, Unavailable) else hosts.get(shares.label)
    if found is None:
        return ()
    parts = " ".join(f"{length:.1f}" for length in found.lengths)
    return (
        Fact(
            name="queue_length",
            value=sum(found.lengths) / len(found.lengths),
            unit="count",
            note=f"mean over a step; by tenth of a step: {parts}",
        ),
        Fact(name="longest_queue", value=found.longest, unit="count"),
        Fact(
            name="slow_launch_calls",
            value=found.slow_calls,
            unit="count",
            note="a step, of more than 50 µs",
        ),
        Fact(
            name="late_starts",
            value=found.late_starts,
            unit="count",
            note="a step: more than 100 µs after the call, on an idle device",
        ),
    )


def _replayed(found: LaunchSignals) -> Unavailable:
    return Unavailable(
        code="NO_KERNEL_DETAILS",
        reason=f"{found.graph_percent:.0f} % of the device's time is replayed from "
        "graphs without a row for each kernel.",
        remedy="Record once with graph replay switched off, or with the tracing of "
        "graph nodes on.",
    )


RULE: Final = Rule(
    _ITEM,
    evaluate,
    (
        *(*OWNED_READS, annotation_names, launch_signals, program_traits),
        *(queue_signals, set_up_signals),
    ),
)
