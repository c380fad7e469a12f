"""How batches are produced on literal hosts, worked out by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.support.traces.literal import (
    ABSENT,
    events_at,
    fields_of,
    spans_of,
    types_named,
    windows_at,
)
from tests.support.traces.literal_functions import frames_of, named
from tests.support.traces.literal_tables import tables_of

from stepscope.derive.facts.evidence import Part
from stepscope.derive.facts.hosts.batch_production import (
    ProductionWaits,
    PythonElements,
    has_own_threads,
    loader_calls,
    loader_work,
    made_elsewhere,
    made_in_own_threads,
    python_elements,
)
from stepscope.derive.host.function_purposes import FunctionPurposes
from stepscope.derive.intervals.spans import Spans, TrackRows

CALLER, KERAS = (named(name, library=True) for name in ("caller", "keras"))
MAKE, OTHER = named("make"), named("other")
NAMES = [CALLER, MAKE, KERAS, OTHER]
#: The caller runs `make` for 60 ps and the other for 40, and Keras runs `make`.
ROWS = (
    *((0, 1, 0, 100, -1), (1, 1, 0, 60, 0), (3, 1, 60, 100, 0)),
    *((2, 1, 200, 300, -1), (1, 1, 200, 250, 3)),
)
PURPOSES = FunctionPurposes(
    np.zeros(0, np.uint8),
    {"calls_back_from_graph": (0,), "asks_keras_dataset": (2,)},
)
OPS = types_named("PyFunc", "a/EagerPyFunc", None, "NoPyFunc", "b:PyFuncStateless")
#: Of 70 ps of waits 10 are in each of two ops, and all others in other events.
RAN = events_at((0, 0, 0, 20), (1, 0, 50, 20), (2, 0, 0, 100), (3, 0, 80, 20))
WAITS = spans_of((10, 60), (80, 100))


def clock(seen: Any, awake: Any) -> Any:
    return SimpleNamespace(seen=seen, awake=awake)


def elements(**given: Any) -> PythonElements | None:
    usual: dict[str, Any] = {
        "events": RAN,
        "event_types": OPS,
        "host_classes": SimpleNamespace(input_wait=WAITS),
        "function_frames": frames_of(NAMES, *ROWS),
        "function_purposes": PURPOSES,
        "core_time": ABSENT,
        "processor_signals": ABSENT,
    }
    found: PythonElements | None = python_elements.function(**(usual | given))
    return found


def test_every_field_of_ops_that_call_python() -> None:
    """Clocks were read in 17 of the 20 ps, in 4 of which a thread was awake."""
    cores = SimpleNamespace(
        threads={("p", 1, 7): clock(spans_of((0, 55)), spans_of((12, 14)))},
        rest={("p", 1): clock(spans_of((50, 57)), spans_of((50, 52)))},
    )
    expected = PythonElements(
        percent=100 * 20 / 70,
        function=Part.from_function(MAKE, 0.0),
        of_keras=True,
        waiting=100 * 13 / 17,
    )
    assert fields_of(elements(core_time=cores)) == fields_of(expected)
    # Where other programs use all cores, who is on none may be ready for one.
    full = SimpleNamespace(are_full=lambda _: True)
    crowded = elements(core_time=cores, processor_signals=full)
    assert crowded is not None
    assert crowded.waiting is None
    stateless = elements(events=events_at((4, 0, 0, 17)))
    assert stateless is not None
    assert stateless.percent == 10.0


def test_of_ops_that_call_python_less_may_be_known() -> None:
    for lacking in ("function_frames", "function_purposes"):
        found = elements(**{lacking: ABSENT})
        expected = PythonElements(100 * 20 / 70, None, of_keras=False, waiting=None)
        assert fields_of(found) == fields_of(expected)
    made = Part.from_function(MAKE, 0.0)
    for rows in (ROWS[:3], (*ROWS[:3], (2, 1, 200, 300, -1), (3, 1, 200, 250, 3))):
        found = elements(function_frames=frames_of(NAMES, *rows))
        assert found is not None
        assert (found.function, found.of_keras) == (made, False)
    keras_alone = ((2, 1, 200, 300, -1), (1, 1, 200, 250, 0))
    found = elements(function_frames=frames_of(NAMES, *keras_alone))
    assert found is not None
    assert (found.function, found.of_keras) == (None, False)
    assert elements(host_classes=SimpleNamespace(input_wait=spans_of())) is None
    assert elements(events=RAN[2:]) is None


@pytest.mark.parametrize(
    ("seen", "waiting"), [((0, 20), 80.0), ((0, 19), None), ((70, 90), None)]
)
def test_half_of_the_ops_must_be_seen_to_know_whether_they_wait(
    seen: tuple[int, int], waiting: float | None
) -> None:
    cores = SimpleNamespace(
        threads={0: clock(spans_of(seen), spans_of((0, 12)))}, rest={}
    )
    found = elements(core_time=cores)
    assert found is not None
    assert found.waiting == waiting


def test_functions_that_loaders_call_for_half_of_their_time_are_theirs() -> None:
    names = [named("fetch", library=True), named("a"), named("b"), named("c")]
    frames = frames_of(
        names,
        *((0, 1, 0, 100, -1), (1, 1, 0, 50, 0), (2, 1, 50, 60, 0), (3, 1, 70, 70, 0)),
        *((1, 1, 200, 250, -1), (2, 1, 300, 311, -1)),
    )
    purposes = FunctionPurposes(np.zeros(0, np.uint8), {"fetches_from_loader": (0,)})
    found = loader_calls.function(function_frames=frames, function_purposes=purposes)
    assert found.percent == {
        ("fetch", "fetch.py", 3): 0.0,
        ("a", "a.py", 3): 50.0,
        ("b", "b.py", 3): pytest.approx(100 * 10 / 21),
        ("c", "c.py", 3): 0.0,
    }
    calls = [found.mostly_calls(Part.from_function(name, 1.0)) for name in names]
    assert calls == [False, True, False, False]
    assert not found.mostly_calls(Part.from_function(OTHER, 1.0))
    no_loader = FunctionPurposes(np.zeros(0, np.uint8), {})
    assert (
        loader_calls.function(function_frames=frames, function_purposes=no_loader)
        is None
    )


# --- batches of other processes and threads ---


def waits_of(
    *names: str | None, program: int | None = 1, topics: Any = None, system: int = 3
) -> Any:
    """Calls of 10 ps, one in each 20 ps of the program's thread."""
    lines = [(1, type_, 20 * type_, 10) for type_ in range(len(names))]
    tracks, events = tables_of([*lines, (0, 0, 0, 900)], ["other", "main"])
    devices = (
        SimpleNamespace(device=0, idle={"input": spans_of((5, 25))}),
        SimpleNamespace(device=1, idle={"input": spans_of((100, 300))}),
    )
    return made_elsewhere.function(
        account=SimpleNamespace(devices=devices),
        idle_topics=ABSENT if topics is None else SimpleNamespace(devices=topics),
        host_states=SimpleNamespace(
            classes=SimpleNamespace(rows=TrackRows.from_tables(tracks, events))
        ),
        naming=SimpleNamespace(
            program=program,
            system=np.arange(len(names)) < system,
            names=names,
            types=events["type"].to_numpy(),
        ),
        windows=windows_at((0, 50), (50, 90)),
    )


def test_the_waits_for_a_batch_are_for_processes_or_for_threads() -> None:
    """The program polls from 0 to 10 and waits for a thread from 20 to 30."""
    calls = ("poll", "sem_wait", None, "poll")
    assert waits_of(*calls) == {0: {"fetch": ProductionWaits(25.0, 25.0)}, 1: {}}
    topics = (
        SimpleNamespace(spans={"unfed": spans_of((8, 12))}),
        # From 60 on runs what has the name of a call and is none.
        SimpleNamespace(spans={"unfed": spans_of((20, 24), (60, 64), (200, 300))}),
    )
    assert waits_of(*calls, topics=topics) == {
        0: {"fetch": ProductionWaits(25.0, 25.0), "unfed": ProductionWaits(50.0, 0.0)},
        1: {"unfed": ProductionWaits(0.0, 50.0)},
    }
    without = (SimpleNamespace(spans={}),) * 2
    assert waits_of(*calls, topics=without) == waits_of(*calls)
    assert waits_of(*calls, program=None) == {}
    assert waits_of(*calls, system=0) == {}


def test_system_calls_that_wait_for_others_are_known_by_name() -> None:
    sent = ("poll", "__ppoll", "epoll_pwait2", "recvmsg_nocancel", "wait4", "waitpid")
    threads = ("futex", "__sem_timedwait", "pthread_join", "pthread_cond_wait")
    neither = ("read", "pthread_cond_timedwait", "polling", "mypoll", "waits")
    for names, waits in (
        (sent, (25.0, 0.0)),
        (threads, (0.0, 25.0)),
        (neither, (0, 0)),
    ):
        for name in names:
            # Of the 20 ps from 5 on, the first call takes 5.
            found = waits_of(name, "read")[0]["fetch"]
            assert (found.sent_percent, found.threads_percent) == waits, name


def test_dali_produces_batches_in_its_own_threads() -> None:
    for name, own in (
        ("[DALI] run", True),
        ("void dali::kernel", True),
        ("x [DALI]", False),
        ("dalila::x", False),
    ):
        assert has_own_threads(event_types=types_named(None, "a", name)) is own
    hosts = {"a": True, "b": False, "c": ABSENT, "d": True}
    assert made_in_own_threads.function(has_own_threads=hosts) == {"a", "d"}


def test_waits_after_a_start_of_workers_count_until_the_end_of_the_step() -> None:
    """A loop may do other work between the start and the wait for the first batch."""
    waits = Spans.of([(2, 4), (12, 14), (16, 20), (22, 26)])
    works = {"starts_workers": np.array([7], np.int32)}
    found = loader_work.function(
        account=SimpleNamespace(devices=[SimpleNamespace(idle={"input": waits})]),
        function_frames=SimpleNamespace(
            type=np.array([7, 3], np.int32),
            spans=lambda chosen: Spans.of([(13, 15)] if chosen.any() else []),
        ),
        function_purposes=SimpleNamespace(
            types_with_work=lambda work: works.get(work, np.array([], np.int32))
        ),
        windows=windows_at((0, 10), (10, 20), (20, 30)),
    )
    # Of waits of 2, 2, 4 and 4, the two in the second step.
    assert found["starts_workers"] == pytest.approx(100 * 6 / 12)
    assert found["draws_indices"] == 0
