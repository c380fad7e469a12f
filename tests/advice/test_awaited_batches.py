"""`input.bound` where an iterator of the program waits for a thread or a process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.traces.training import KERNELS, Recorder, cores, findings, on_host
from tests.support.traces.waiting import GET, LOADER, STEPS, WORKER, core_time

from stepscope.reporting.words.findings import lead_sentence

if TYPE_CHECKING:
    from stepscope.advice.finding import Finding

SAMPLES = "samples of main, 1000 a second"
LINES = "source lines of main, 1000 a second"
MAIN, FEED = "$/app/train.py:60 main", "$/app/train.py:41 feed_batches"
#: Of each step of 10 ms the program is in its iterator for 5.9, then in four ops.
WAITS = [(begin + 50.0, begin + 5_950.0) for begin in STEPS]
AWAKE = [(begin + 5_950.0, min(begin + 10_050.0, 2e5)) for begin in STEPS]
IN_PROCESS = GET.replace("queue.py", "multiprocessing/queues.py")
RESULT = "$/usr/lib/python3.12/concurrent/futures/_base.py:428 Future.result"
RECEIVE = "$/usr/lib/python3.12/multiprocessing/connection.py:374 Connection._recv"
ACCEPT = "$/usr/lib/python3.12/socket.py:286 socket.accept"
ACQUIRE = "$/usr/lib/python3.12/threading.py:446 Semaphore.acquire"
IMAP = "$/usr/lib/python3.12/multiprocessing/pool.py:853 IMapIterator.next"
MAP = "$/usr/lib/python3.12/concurrent/futures/_base.py:608 result_iterator"
CONDITION = "$/usr/lib/python3.12/threading.py:323 Condition.wait"
JOIN = "$/usr/lib/python3.12/threading.py:1087 Thread.join"
TASKS = "$/usr/lib/python3.12/concurrent/futures/thread.py:70 _worker"
PUT = GET.replace("154 Queue.get", "122 Queue.put")


def fed(
    called: str | None = "for",
    *,
    feed: str = FEED,
    inner: str | None = GET,
    around: str | None = None,
) -> list[Any]:
    """Line 63 of `main` calls an iterator, which is in `inner` for 5.9 ms of each step.

    Args:
        called: What the line calls; None where no lines were recorded.
        around: A library's iterator in between.
    """
    stack = [it for it in (around, feed, inner) if it is not None]
    lines: list[Any] = [(SAMPLES, MAIN, 0.0, 200_050.0)]
    for begin, end in WAITS:
        lines += [(SAMPLES, name, begin, end - begin) for name in stack]
        if called is None:
            continue
        stats = [{"source_line": 63, "called": called}, *({"source_line": 7},) * 3]
        lines += [
            (LINES, name, begin, end - begin, each)
            for name, each in zip((MAIN, *stack), stats, strict=False)
        ]
        lines.append((LINES, MAIN, end, 4_100.0, {"source_line": 65}))
    lines.append((LINES, MAIN, 0.0, 50.0, {"source_line": 62}))
    lines += core_time("main", [(0.0, 50.0), *AWAKE])
    return lines + [it for it in on_host(lead_us=6_000.0) if it[1] != "IteratorGetNext"]


def by_thread(awake: list[tuple[float, float]] = WAITS) -> list[Any]:
    """Thread `loader` decodes while the program waits."""
    frames = [
        (LOADER, "$/app/data.py:7 decode", begin, end - begin) for begin, end in WAITS
    ]
    return frames + core_time("loader", awake)


def by_process() -> list[Any]:
    """A worker process augments for the same time, and else waits for work."""
    used: Any = {"worker processes": 1.0, "worker processes CPU (percent)": 59.0}
    lines = cores(4, busy=60.0, **used, **{"CPU pressure (percent)": 10.0})
    for begin, end in WAITS:
        lines += [
            (WORKER, "$/app/data.py:41 augment", begin, end - begin),
            (WORKER, IN_PROCESS, end, 4_100.0),
        ]
    return lines


def fed_directly(
    *called_functions: str, called: str, unused: bool = False
) -> list[Any]:
    """Line 63 of `main` itself waits for 5.9 ms of each step, in a library's functions.

    Args:
        called_functions: The library's functions, outer first.
        called: What the line calls.
        unused: Whether the line does nothing with what the call returns.
    """
    outer, *inner = called_functions
    lines = fed(called, feed=outer, inner=inner[0] if inner else None)
    if not unused:
        return lines
    return [
        (*it[:4], {**it[4], "result_unused": 1})
        if it[0] == LINES and it[4].get("called") == called
        else it
        for it in lines
    ]


def beside(
    while_waiting: str | None, else_in: str | None, *around: str, line: str = LOADER
) -> list[Any]:
    """What another thread does while the program waits, and while it does not."""
    lines: list[Any] = [(line, name, 0.0, 200_050.0) for name in around]
    if while_waiting == else_in:
        return [*lines, (line, while_waiting, 0.0, 200_050.0)]
    for begin, end in WAITS:
        if while_waiting is not None:
            lines.append((line, while_waiting, begin, end - begin))
        if else_in is not None:
            lines.append((line, else_in, end, 4_100.0))
    return lines


def owners(found: Any) -> dict[str, float | None]:
    names = ("input.bound", "host.wait")
    return {
        name: found[name].share_percent
        for name in names
        if found[name].status == "fail"
    }


#: 20 times 5.9 of 199.99 ms.
SHARE = pytest.approx(100 * 20 * 5.9 / 199.99, abs=0.1)


def texts(found: Finding) -> list[str]:
    return [action.text for action in found.actions]


def test_a_generator_that_waits_for_a_thread_is_input() -> None:
    found = findings(fed() + by_thread())
    assert owners(found) == {"input.bound": SHARE}
    one = found["input.bound"]
    assert lead_sentence(one) == (
        "Input-bound: waiting for data takes 59.0 % of the time, 5.90 ms a step; "
        "`feed_batches` (train.py:41) waits in `Queue.get` while thread `loader` is in "
        "`decode` (data.py:7)."
    )
    assert [part.function for part in one.parts[:2]] == ["feed_batches", "decode"]
    assert texts(one)[0].startswith("Let more threads produce batches")
    assert not any(
        "Produce the next batch in another process" in it for it in texts(one)
    )


def test_a_generator_that_waits_for_a_process_is_input() -> None:
    one = findings(fed(inner=IN_PROCESS) + by_process())["input.bound"]
    assert lead_sentence(one) == (
        "Input-bound: waiting for data takes 59.0 % of the time, 5.90 ms a step; "
        "worker processes spend 59.0 % of their time in `augment` (data.py:41)."
    )
    cheaper, more, *_ = one.actions
    assert cheaper.text.startswith("Make the work of the worker processes cheaper")
    # There is no DataLoader, so nothing is said of one.
    assert more.text.startswith("Start more worker processes")
    assert more.framework == "any"
    assert (more.code or "").startswith("for _ in range(2): Process(target=")


@pytest.mark.parametrize(
    ("change", "is_input"),
    [
        ({"called": "next"}, True),
        ({"called": "self.batches.__next__"}, True),
        # A library's iterator hands on what the program's yields.
        ({"around": "$/v/site-packages/tqdm/std.py:1160 tqdm.__iter__"}, True),
        ({"inner": RESULT}, True),
        ({"inner": RECEIVE}, True),
        # Without lines only the name tells of an iterator.
        ({"called": None}, False),
        ({"called": None, "feed": "$/app/data.py:9 Batches.__next__"}, True),
        ({"called": None, "feed": "$/app/data.py:9 Reader.load_data"}, True),
        # What the loop's iterator does, it does for the next batch.
        ({"inner": None}, True),
        ({"inner": ACCEPT}, True),
        ({"inner": ACQUIRE}, True),
        # No iterator is called.
        ({"called": "self.take"}, False),
        ({"called": "np.sum"}, False),
    ],
)
def test_what_an_iterator_waits_for_decides(change: Any, *, is_input: bool) -> None:
    found = findings(fed(**change) + by_thread())
    assert owners(found).get("input.bound") == (SHARE if is_input else None)


DECODE, AUGMENT = "$/app/data.py:7 decode", "$/app/data.py:41 augment"
SERVE = "$/app/metrics.py:5 serve"
AHEAD = beside(DECODE, DECODE)
#: The thread sleeps in `decode`, as for a slow disk, and gives a batch to a full queue.
GIVES = beside(DECODE, PUT)
ANSWERS = beside(DECODE, GET, SERVE)
#: A pool's thread takes its tasks in compiled code, so `_worker` itself is innermost.
ANSWERS_IN_POOL = beside(DECODE, None, TASKS)
STARTED_ANEW = beside(DECODE, None)
#: A thread answers for 2.4 ms of each wait, while another one is always busy.
BUSY = beside(SERVE, SERVE, line=LOADER.replace("loader", "statistics"))
ANSWERS_LATE = [
    (LOADER, SERVE, 0.0, 200_050.0),
    *(
        (LOADER, name, at, length)
        for begin, end in WAITS
        for name, at, length in (
            (GET, begin, 3_500.0),
            (DECODE, begin + 3_500.0, 2_400.0),
            (GET, end, 4_100.0),
        )
    ),
]
#: A thread decodes for 4 of each 10 ms: 2.4 while the step waits, 1.6 while it works.
AT_TIMES = [
    *(it for it in ANSWERS_LATE if it[2:] not in {(end, 4_100.0) for _, end in WAITS}),
    *((LOADER, GET, end, 2_500.0) for _, end in WAITS),
    *((LOADER, DECODE, end + 2_500.0, 1_600.0) for _, end in WAITS),
]


@pytest.mark.parametrize(
    ("chain", "called", "other", "is_input"),
    [
        # The loop iterates on the results of a pool; nobody was sampled, or it works.
        ((IMAP, CONDITION), "for", [], True),
        ((IMAP, CONDITION), "for", beside(AUGMENT, AUGMENT, line=WORKER), True),
        ((MAP, RESULT), "for", AHEAD, True),
        ((MAP, RESULT), "next", AHEAD, True),
        # The pool has nothing to do until the step waits: parts of the step, not input.
        ((IMAP, CONDITION), "for", beside(AUGMENT, IN_PROCESS, line=WORKER), False),
        ((MAP, RESULT), "for", ANSWERS_IN_POOL, False),
        # The step takes what a thread or process made while the step worked.
        ((GET,), "batches.get", AHEAD, True),
        ((GET,), "batches.get", GIVES, True),
        ((GET, CONDITION), "batches.get", AHEAD, True),
        ((IN_PROCESS,), "batches.get", beside(AUGMENT, AUGMENT, line=WORKER), True),
        ((RECEIVE,), "pipe.recv", beside(AUGMENT, AUGMENT, line=WORKER), True),
        ((RESULT,), "batch.result", AHEAD, True),
        # A service that begins when it is asked, and a thread that the step starts.
        ((GET,), "answers.get", ANSWERS, False),
        ((IN_PROCESS,), "answers.get", beside(AUGMENT, IN_PROCESS, line=WORKER), False),
        ((RESULT,), "score.result", ANSWERS_IN_POOL, False),
        ((GET,), "answers.get", STARTED_ANEW, False),
        # One of two that work meanwhile began when it was asked.
        ((GET,), "answers.get", ANSWERS + beside(SERVE, SERVE, line=WORKER), False),
        ((GET,), "answers.get", ANSWERS_LATE + BUSY, False),
        # Two threads in a row make the batches: one is idle at times, whoever waits.
        ((GET,), "batches.get", AT_TIMES + BUSY, True),
        # Nobody is known, nobody works, or nothing is received.
        ((GET,), "answers.get", [], False),
        ((GET,), "answers.get", beside(GET, GET, SERVE), False),
        ((ACQUIRE,), "lock.acquire", AHEAD, False),
        ((ACCEPT,), "server.accept", AHEAD, False),
    ],
)
def test_a_loop_that_waits_for_a_producer_itself_is_input(
    chain: tuple[str, ...], called: str, other: list[Any], *, is_input: bool
) -> None:
    found = findings(fed_directly(*chain, called=called) + other)
    assert owners(found) == {"input.bound" if is_input else "host.wait": SHARE}


@pytest.mark.parametrize(
    ("chain", "called"),
    [((RESULT,), "saving.result"), ((JOIN,), "thread.join"), ((GET,), "done.get")],
)
def test_a_result_that_nobody_uses_is_no_input(
    chain: tuple[str, ...], called: str
) -> None:
    """The step waits for the end of a checkpoint, whose thread works all the time."""
    found = findings(fed_directly(*chain, called=called, unused=True) + AHEAD)
    assert owners(found) == {"host.wait": SHARE}


def test_a_thread_that_waits_itself_is_named_too() -> None:
    found = findings(fed() + by_thread(awake=[]))
    assert owners(found) == {"input.bound": SHARE}
    assert lead_sentence(found["input.bound"]).endswith(
        "waits in `Queue.get` while thread `loader` is in `decode` (data.py:7)."
    )


def test_where_nobody_is_known_no_producer_is_named() -> None:
    one = findings(fed())["input.bound"]
    assert lead_sentence(one).endswith("most of it in `feed_batches` (train.py:41).")
    assert texts(one)[0].startswith("Make each batch cheaper")


def test_batches_that_are_there_are_no_wait() -> None:
    """The same program, whose thread is ahead: 60 µs of each step for the batch."""
    lines: list[Any] = [(SAMPLES, MAIN, 0.0, 200_050.0)]
    for begin in STEPS:
        stats = {"source_line": 63, "called": "for"}
        call = (begin + 5.0, 60.0)
        lines += [(SAMPLES, name, *call) for name in (FEED, GET)]
        lines += [(LINES, MAIN, *call, stats), (LINES, FEED, *call, {"source_line": 7})]
    lines += core_time("main", [(0.0, 200_000.0)])
    base = [it for it in on_host(lead_us=70.0) if it[1] != "IteratorGetNext"]
    found = findings(lines + base + by_thread())
    assert owners(found) == {}


def test_a_device_that_idles_meanwhile_waits_for_input() -> None:
    made = Recorder()
    for number, begin in enumerate(STEPS):
        made.mark(number, begin, 9_990.0)
        called, start = begin + 6_000.0, begin + 6_020.0
        for kernel in KERNELS[:20]:
            made.launch((kernel[0], 190.0, kernel[2]), called, start)
            called, start = called + 6.0, start + 190.5
    waiting = [it for it in fed() if it[0] != "main"]
    found = findings(made.lines + waiting + by_thread())
    one = found["input.bound"]
    assert one.status == "fail"
    assert one.share_percent == pytest.approx(60, abs=2)
    assert "`decode` (data.py:7)" in lead_sentence(one)


def test_an_iterator_in_which_the_ops_run_is_the_loop() -> None:
    """`main` only logs what `feed_batches` yields after each step."""
    lines = [(SAMPLES, MAIN, 0.0, 200_050.0), (LINES, MAIN, 0.0, 50.0)]
    for begin in STEPS:
        at, length = begin + 50.0, 9_900.0
        called: Any = {"source_line": 63, "called": "for"}
        lines += [(SAMPLES, FEED, at, length), (LINES, MAIN, at, length, called)]
        lines += [
            (LINES, FEED, at, length, {"source_line": 43}),
            (LINES, MAIN, at + length, 100.0, {"source_line": 65}),
        ]
    lines += [it for it in on_host(lead_us=6_000.0) if it[1] != "IteratorGetNext"]
    assert "input.bound" not in owners(findings(lines))
