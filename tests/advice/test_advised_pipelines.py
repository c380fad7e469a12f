"""`input.bound`: what a pipeline of tf.data is told to do, by what it does already."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.traces import blueprint

from stepscope.advice.rules.loading.input_bound import evaluate
from stepscope.advice.signals.loading.pipeline import (
    PipelineSignals,
    Stage,
    pipeline_signals,
)
from stepscope.advice.signals.loading.python_elements import python_elements
from stepscope.thresholds import THRESHOLDS


@pytest.mark.parametrize("adapter", ["PyDatasetAdapter._finite_generator", "produce"])
def test_a_dataset_of_keras_is_to_use_its_own_workers(
    signals_of: Any, shares: Any, adapter: str
) -> None:
    called = "/opt/lib/python3.12/site-packages"
    lines = []
    for begin in range(0, 100_000, 10_000):
        lines += [
            ("main", "train", begin, 9_990.0, {"step_num": begin // 10_000, "_r": 1}),
            ("main", "IteratorGetNext", begin + 5.0, 6_000.0),
            ("pool", "PyFunc:PyFunc", begin + 1_005.0, 4_900.0),
            *(
                ("seen", f"{called}/{name}", begin + 1_010.0 + at, 4_800.0 - 2 * at)
                for at, name in enumerate(
                    (
                        "tensorflow/script_ops.py(239): FuncRegistry.__call__",
                        f"keras/adapter.py(257): {adapter}",
                    )
                )
            ),
            ("seen", "/app/data.py(6): Pictures.__getitem__", begin + 1_020.0, 4_700.0),
        ]
    profile = blueprint.profile(blueprint.trace(lines))
    elements = python_elements.compute(profile, THRESHOLDS)
    (found,) = elements.values()
    assert found.of_keras == (adapter != "produce")
    signals = signals_of(shares(input=3.0), {python_elements: {"vm": found}})
    first = evaluate(signals, THRESHOLDS).actions[0]
    assert ("use_multiprocessing" in (first.code or "")) == found.of_keras


@pytest.mark.parametrize(("own_ps", "whole"), [(40e6, True), (60e6, False)])
def test_a_parallel_pipeline_without_any_prefetch_is_not_told_to_be_parallel(
    signals_of: Any,
    shares: Any,
    fetching_of: Any,
    own_ps: float,
    whole: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    """The story: tf.data made the maps parallel, and `input.stage` said so."""
    stages = tuple(
        Stage(
            type=kind,
            name=kind,
            depth=depth,
            percent=percent,
            runs_per_call=128.0,
            mean_self_ps=own_ps,
            transparent=False,
        )
        for depth, (kind, percent) in enumerate(
            [("MapAndBatch", 55.0), ("ParallelMap", 40.0), ("Cache", 1.0)]
        )
    )
    found = PipelineSignals("vm", stages, own_process=False, absent=None)
    signals = signals_of(
        shares(input=3.0),
        {pipeline_signals: found},
        fetching=fetching_of(parallel=True),
    )
    texts = [it.text for it in evaluate(signals, THRESHOLDS).actions]
    assert not any("Transform in parallel" in text for text in texts)
    assert any("does not end with a prefetch" in text for text in texts)
    assert texts[0].startswith("Batch before mapping") == whole


def test_python_behind_ops_is_told_by_what_called_it() -> None:
    """Ops run on threads of the framework, functions on threads as Python has them."""
    called = "/opt/lib/python3.12/site-packages/tf/script_ops.py"
    lines = []
    for begin in range(0, 100_000, 10_000):
        lines += [
            ("main", "train", begin, 9_990.0, {"step_num": begin // 10_000, "_r": 1}),
            ("main", "IteratorGetNext", begin + 5.0, 6_000.0),
            ("pool", "EagerPyFunc:EagerPyFunc", begin + 1_005.0, 3_000.0),
            ("seen", f"{called}(239): FuncRegistry.__call__", begin + 1_010.0, 2_900.0),
            ("seen", "/app/data.py(6): parse", begin + 1_020.0, 2_800.0),
            ("seen", "/app/data.py(9): field", begin + 1_030.0, 2_700.0),
            ("main", "/app/data.py(50): train", begin + 7_000.0, 2_900.0),
        ]
    profile = blueprint.profile(blueprint.trace(lines))
    (found,) = python_elements.compute(profile, THRESHOLDS).values()
    assert found.percent == pytest.approx(50)
    assert found.function is not None
    assert (found.function.name, found.function.line) == ("parse", 6)
