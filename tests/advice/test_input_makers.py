"""`input.bound`: what fits the pipeline that makes the batches, and who makes them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.support.traces import blueprint

from stepscope.advice.engine import evaluate as all_rules
from stepscope.advice.engine import signals_of as signals_of_profile
from stepscope.advice.rules.input_pipeline.input_waits import (
    judge_input_wait as evaluate,
)
from stepscope.derive.facts.evidence import Part
from stepscope.derive.facts.hosts.batch_fetches import input_signals
from stepscope.derive.facts.hosts.batch_production import (
    PythonElements,
    python_elements,
)
from stepscope.derive.facts.hosts.pipeline_stages import (
    PipelineSignals,
    Stage,
    pipeline_signals,
)
from stepscope.derive.input_pipeline.stages import recorded_practices


def test_a_map_that_takes_turns_is_not_called_parallel_for_the_batch_around_it(
    signals_of: Any, shares: Any, fetching_of: Any
) -> None:
    kinds = [("Prefetch", 3.0), ("MapAndBatch", 1.0), ("Map", 96.0)]
    signals = signals_of(
        shares(input=3.0),
        {pipeline_signals: stages_of(kinds)},
        fetching=fetching_of(parallel=True, ahead=True),
    )
    texts = [one.text for one in evaluate(signals).actions]
    assert texts[0] == "Transform in parallel and fetch ahead."
    assert not any("in parallel and ahead already" in one for one in texts)


@pytest.mark.parametrize("parallel", [False, None])
def test_a_pipeline_that_transforms_nothing_is_not_told_to_do_it_in_parallel(
    signals_of: Any, shares: Any, fetching_of: Any, *, parallel: bool | None
) -> None:
    kinds = [("Prefetch", 2.0), ("ForeverRepeat", 1.0), ("MemoryCache", 90.0)]
    found = fetching_of(parallel=parallel, ahead=True)
    signals = signals_of(
        shares(input=3.0), {input_signals: found, pipeline_signals: stages_of(kinds)}
    )
    first, *_ = evaluate(signals).actions
    # If stages were not recorded, nobody knows that they transform nothing.
    assert ("has no transformations" in first.text) is (parallel is False)


def stages_of(kinds: list[tuple[str, float]], *, ready: float = 0.0) -> PipelineSignals:
    """A pipeline of these stages, from the consumer on, each with its share."""
    made = tuple(
        Stage(
            type=kind,
            name="::".join(("Iterator", *(name for name, _ in kinds[: depth + 1]))),
            depth=depth,
            percent=percent,
            runs_per_call=1.0,
            mean_self_ps=1e9,
            transparent=False,
            ready_percent=ready,
        )
        for depth, (kind, percent) in enumerate(kinds)
    )
    return PipelineSignals("vm", made, own_process=False, absent=None)


def test_a_parallel_pipeline_without_a_cache_is_to_get_one_first(
    signals_of: Any, shares: Any, fetching_of: Any
) -> None:
    found = fetching_of(parallel=True, ahead=True)
    signals = signals_of(
        shares(input=3.0),
        {
            input_signals: found,
            pipeline_signals: stages_of([("Prefetch", 1.0), ("ParallelMap", 95.0)]),
        },
    )
    first, *others = evaluate(signals).actions
    assert first.code is not None
    assert ".cache()" in first.code
    assert not any("Cache" in one.text for one in others)


def test_a_parallel_pipeline_without_a_prefetch_at_its_end_is_not_called_ahead(
    signals_of: Any, shares: Any, fetching_of: Any
) -> None:
    """A prefetch far upstream counted as one, and input.stage said that there is none.

    Keras shuffles the places of samples ahead, and gathers the samples afterwards.
    """
    found = fetching_of(parallel=True, ahead=True)
    stages = stages_of([("ParallelMap", 95.0), ("Zip", 1.0), ("Prefetch", 1.0)])
    signals = signals_of(
        shares(input=3.0), {input_signals: found, pipeline_signals: stages}
    )
    texts = [it.text for it in evaluate(signals).actions]
    assert any("end the pipeline with a prefetch" in text for text in texts)
    assert not any("ahead already" in text for text in texts)


def test_a_pipeline_without_prefetch_is_to_fetch_ahead_before_it_caches(
    signals_of: Any, shares: Any, fetching_of: Any
) -> None:
    """A cache came first, which does not fit every data set."""
    signals = signals_of(
        shares(input=3.0),
        {pipeline_signals: stages_of([("ParallelMap", 95.0), ("Zip", 1.0)])},
        fetching=fetching_of(parallel=True),
    )
    codes = [it.code or "" for it in evaluate(signals).actions]
    assert ".prefetch(" in codes[0]
    assert any(".cache()" in code for code in codes[1:])


@pytest.mark.parametrize(("own_ps", "whole"), [(40e6, True), (60e6, False)])
def test_a_parallel_pipeline_without_any_prefetch_is_not_told_to_be_parallel(
    signals_of: Any,
    shares: Any,
    fetching_of: Any,
    own_ps: float,
    whole: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    """The story: tf.data made the maps parallel, and `input.stage` said so."""
    stages = stages_of([("MapAndBatch", 55.0), ("ParallelMap", 40.0), ("Cache", 1.0)])
    brief = tuple(
        msgspec.structs.replace(it, runs_per_call=128.0, mean_self_ps=own_ps)
        for it in stages.stages
    )
    signals = signals_of(
        shares(input=3.0),
        {pipeline_signals: msgspec.structs.replace(stages, stages=brief)},
        fetching=fetching_of(parallel=True),
    )
    texts = [it.text for it in evaluate(signals).actions]
    assert not any("Transform in parallel" in text for text in texts)
    assert any("end the pipeline with a prefetch" in text for text in texts)
    assert texts[0].startswith("Batch before mapping") == whole


@pytest.mark.parametrize(("percent", "named"), [(49.0, False), (51.0, True)])
def test_a_function_behind_an_op_is_named_where_it_is_what_a_step_waits_for(
    signals_of: Any,
    shares: Any,
    percent: float,
    named: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    parse = Part(name="parse", function="parse", file="/app/d.py", share_percent=0.0)
    elements = {python_elements: {"vm": PythonElements(percent, parse)}}
    finding = evaluate(signals_of(shares(input=3.0), elements))
    assert [it.function for it in finding.parts] == (["parse"] if named else [])
    # It makes a good part of the elements either way.
    assert "interpreter's lock" in finding.actions[0].text


@pytest.mark.parametrize(
    ("waiting", "advice"),
    [
        (24.0, "interpreter's lock"),
        # Who waits for a store holds no lock, and may be asked ahead and in parallel.
        (25.0, "Transform in parallel and fetch ahead"),
        (None, "interpreter's lock"),
    ],
)
def test_python_that_waits_is_not_to_be_replaced(
    signals_of: Any, shares: Any, waiting: float | None, advice: str
) -> None:
    elements = PythonElements(90.0, None, waiting=waiting)
    signals = signals_of(shares(input=3.0), {python_elements: {"vm": elements}})
    assert advice in evaluate(signals).actions[0].text


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
    (found,) = profile.of_run(python_elements).values()
    assert found.percent == pytest.approx(50)
    assert found.function is not None
    assert (found.function.name, found.function.line) == ("parse", 6)


@pytest.mark.parametrize(("ready", "cheaper"), [(20.0, True), (80.0, False)])
def test_batches_that_lay_ready_are_not_to_be_made_cheaper(
    signals_of: Any, shares: Any, fetching_of: Any, ready: float, *, cheaper: bool
) -> None:
    found = fetching_of(parallel=True, ahead=True)
    stages = stages_of([("Prefetch", 99.0), ("ParallelMap", 1.0)], ready=ready)
    signals = signals_of(
        shares(input=3.0), {input_signals: found, pipeline_signals: stages}
    )
    told = " ".join(it.text for it in evaluate(signals).actions)
    assert ("Make each batch cheaper" in told) == cheaper
    assert ("were ready" in told) != cheaper


@pytest.mark.parametrize(
    ("name", "library"),
    [("[DALI][CPU op] data_input", True), ("load_images", False)],
)
def test_a_library_with_threads_of_its_own_is_given_more_of_them(
    name: str, *, library: bool
) -> None:
    """A program whose batches DALI makes was told to use workers of a DataLoader."""
    lines: list[Any] = []
    for step in range(8):
        at = 1000.0 * step
        lines += [
            ("main", "train", at, 1000, {"_r": 1, "step_num": step}),
            ("main", "load_batch", at, 500),
            ("main", "aten::mm", at + 500, 500),
            ("worker", name, at, 490),
        ]
    signals = signals_of_profile(blueprint.profile(blueprint.trace(lines)))
    (found,) = [it for it in all_rules(signals) if it.id == "input.bound"]
    assert found.status == "fail"
    code = " ".join(it.code or "" for it in found.actions)
    assert ("num_threads=8, prefetch_queue_depth=4" in code) == library
    assert ("DataLoader(" in code) != library


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
    elements = profile.of_run(python_elements)
    (found,) = elements.values()
    assert found.of_keras == (adapter != "produce")
    signals = signals_of(shares(input=3.0), {python_elements: {"vm": found}})
    first = evaluate(signals).actions[0]
    assert ("use_multiprocessing" in (first.code or "")) == found.of_keras


@pytest.mark.parametrize(
    ("names", "practices"),
    [
        # An option that each pipeline names is not a stage that works in parallel.
        (
            ["Model::MaxIntraOpParallelism", "Model::MaxIntraOpParallelism::Map"],
            "no no",
        ),
        # What runs before the prefetch, on another thread, was not recorded.
        (["Map", "Map::Prefetch"], "unknown yes"),
        (["Prefetch", "Prefetch::ParallelMapV2"], "yes yes"),
        (["ParallelMapV2", "ParallelMapV2::TensorSlice"], "yes no"),
        (["Map", "Map::ParallelInterleaveV4[0]"], "yes unknown"),
        ([], "unknown unknown"),
    ],
)
def test_a_practice_is_known_absent_or_unknown(
    names: list[str], practices: str
) -> None:
    words = {True: "yes", False: "no", None: "unknown"}
    found = recorded_practices([f"Iterator::{name}" for name in names])
    assert " ".join(words[answer] for answer in found) == practices


@pytest.mark.parametrize(
    ("loader", "practices"),
    [
        ("_MultiProcessingDataLoaderIter", (True, True)),
        ("_SingleProcess", (False,) * 2),
    ],
)
def test_a_loader_of_pytorch_shows_whether_it_has_workers(
    loader: str, practices: tuple[bool, bool]
) -> None:
    assert recorded_practices([f"enumerate(DataLoader)#{loader}.__next__"]) == practices


def test_advice_says_how_to_find_out_what_the_recording_does_not_show() -> None:
    """Of 37 s only the wait for a prefetch was recorded, and nothing upstream of it.

    The report said that batches are produced in parallel and ahead already.
    """
    stages = ("Model", "MaxIntraOpParallelism", "Map", "Prefetch")
    lines = []
    for step in range(4):
        at = 10_000.0 * step
        lines += [
            ("main", "train", at, 9_990, {"step_num": step, "_r": 1}),
            ("main", "IteratorGetNext", at + 5, 9_000),
            ("main", "MatMul:MatMul", at + 9_100, 800),
            *(
                (
                    "main",
                    f"Iterator::{stages[depth]}",
                    at + 6 + depth,
                    8_900 - 2 * depth,
                    {"long_name": "::".join(("Iterator", *stages[: depth + 1]))},
                )
                for depth in range(len(stages))
            ),
        ]
    signals = signals_of_profile(blueprint.profile(blueprint.trace(lines)))
    found = {it.id: it for it in all_rules(signals)}
    texts = [it.text for it in found["input.bound"].actions]
    assert texts[0] == "Transform in parallel and fetch ahead."
    assert any(text.startswith("Find out whether the program") for text in texts)
    assert not any("already produced in parallel" in text for text in texts)
    assert found["input.stage"].because == ("unseen",)
