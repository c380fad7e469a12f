"""`input.stage`: which stage of the input pipeline is slow, and what it lacks.

Definition: docs/advice/input_stage.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.advice.finding import Action, Finding
from stepscope.advice.item import Item
from stepscope.advice.judging.worker_processes import sized
from stepscope.advice.rule import Rule
from stepscope.advice.rules.loading import input_bound
from stepscope.advice.words import Words
from stepscope.derive.facts.evidence import SHOWN, Fact, Part
from stepscope.derive.facts.hosts.batch_makers import python_elements
from stepscope.derive.facts.hosts.pipeline_stages import (
    missing_practices,
    pipeline_signals,
)
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepscope.advice.signals import Signals
    from stepscope.derive.facts.hosts.pipeline_stages import Stage
    from stepscope.thresholds import Thresholds

#: Practice that is missing → what to do, in the order of the guide.
_ACTIONS: Final = (
    Action(
        cause="prefetch",
        framework="any",
        text="Make batches ahead: end the pipeline with a prefetch.",
        code="dataset.prefetch(tf.data.AUTOTUNE)",
    ),
    Action(
        cause="parallel_read",
        framework="any",
        text="Read several files at once.",
        code="files.interleave(tf.data.TFRecordDataset, "
        "num_parallel_calls=tf.data.AUTOTUNE)",
    ),
    Action(
        cause="parallel_map",
        framework="any",
        text="Transform several elements at once.",
        code="dataset.map(f, num_parallel_calls=tf.data.AUTOTUNE)",
    ),
    Action(
        cause="parallel_map",
        framework="JAX",
        text="Or let a loader of processes make the elements, and keep batches ahead.",
        code="grain.DataLoader(…, worker_count=8, worker_buffer_size=2)",
    ),
    Action(
        cause="vectorise",
        framework="any",
        text="Batch before mapping, and let the function work on whole batches.",
        code="dataset.batch(n).map(f_of_a_batch)",
    ),
    Action(
        cause="native_code",
        framework="any",
        text="Replace Python in the pipeline by ops of the framework: while it "
        "computes it holds the interpreter's lock.",
    ),
    Action(
        cause="cache",
        framework="any",
        text="Keep what is the same in every epoch, where it fits into memory.",
        code="dataset.cache()",
    ),
    Action(
        cause="workers",
        framework="PyTorch",
        text="Load in worker processes, and pin what they make.",
        code="DataLoader(dataset, num_workers=8, persistent_workers=True, "
        "prefetch_factor=4, pin_memory=True)",
    ),
    Action(
        cause="upstream",
        framework="any",
        text="Batches are made ahead, and too slowly: look at the stages before the "
        "prefetch; record for longer if they are not in the graph.",
    ),
    Action(
        cause="ready",
        framework="any",
        text="The batches were ready when they were asked for: nothing upstream holds "
        "them up. Look at the handing over: locks, and other work on the host's cores.",
    ),
    Action(
        cause="cheaper",
        framework="any",
        text="It is parallel and ahead already: make its function cheaper, or give it "
        "more cores.",
    ),
)
_SLOWEST: Final = (
    "The slowest stage of the input pipeline is {named}: a batch waits for it "
    "{value} of its time."
)
_WORDS: Final = Words(
    passed="the input pipeline keeps up",
    texts={
        ("fail", None): (
            (
                _SLOWEST,
                "The loader makes batches in the process of the steps, one by one.",
            ),
        ),
        ("pass", None): (("{passed}.",),),
    },
    causes={
        "prefetch": "no prefetch at its end",
        "parallel_read": "files are read one after the other",
        "parallel_map": "elements are transformed one after the other",
        "vectorise": "a brief function is called for each element",
        "native_code": "Python makes the elements",
        "cache": "nothing is cached",
        "workers": "the loader has no worker processes",
        "upstream": "what it fetches ahead comes too slowly",
        "ready": "what it fetched ahead was ready, and was handed over late",
        "cheaper": "it is parallel and ahead already",
    },
)
_ITEM: Final = Item(
    id="input.stage",
    stage=1,
    title="a stage of the input pipeline is too slow",
    words=_WORDS,
    pages=("tf_data_bottleneck_analysis", "input_pipeline_analyzer"),
    confirm="Look at the graph of the pipeline: the stage lies on the critical path.",
    refute="Take the stage out, for one run: if a batch takes as long, another stage "
    "is the slow one.",
    actions=_ACTIONS,
)


def evaluate(signals: Signals, thresholds: Thresholds) -> Finding:
    """Name the slow stage where steps wait for their data, or have no slack left."""
    waits = input_bound.evaluate(signals, thresholds)
    if waits.status == "cannot_tell":
        return _ITEM.cannot_tell(waits.unavailable or _NO_WAIT)
    if waits.status == "pass" and waits.note != "hidden":
        return _ITEM.not_applicable(_NO_WAIT)
    found, python = signals.of(pipeline_signals), signals.of(python_elements)
    if not found.stages and not found.own_process:
        return _ITEM.cannot_tell(found.absent or _NO_WAIT)
    missing = missing_practices(found, python.get(found.host or ""))
    slowest = _by_share(found.stages)
    return _ITEM.finding(
        "fail",
        severity=waits.severity if waits.status == "fail" else "info",
        confidence=waits.confidence,
        value=slowest[0].percent if slowest else None,
        because=missing,
        parts=tuple(
            Part(name=one.name, share_percent=one.percent) for one in slowest[:SHOWN]
        ),
        devices=waits.devices,
        facts=(
            Fact(
                name="runs_per_batch",
                value=slowest[0].runs_per_call if slowest else None,
                unit="count",
            ),
        ),
        inputs=("pipeline_graph", "pipeline_calls"),
        actions=sized(tuple(one for one in _ACTIONS if one.cause in missing), signals),
        explained_by=(input_bound.RULE.item.id,) if waits.status == "fail" else (),
    )


def _by_share(stages: Sequence[Stage]) -> list[Stage]:
    telling = [one for one in stages if not one.transparent]
    return sorted(telling, key=lambda one: -one.percent)


_NO_WAIT: Final = Unavailable(
    code="NO_SAMPLES",
    reason="The steps do not wait for their data.",
    remedy="Nothing to do.",
)


RULE: Final = Rule(_ITEM, evaluate, (*input_bound.RULE.reads,))
