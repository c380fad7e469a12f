"""One computation at a time, each thing computed once, memory bounded."""

from __future__ import annotations

import random
import re
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.support.sites.serve import OLD, Site, put, running

from stepscope.serve.runs import answers, opened, store
from stepscope.serve.runs.cache import Bounded

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepscope.analysis.tools import ProfileWithTools
    from stepscope.rundir import Run


def test_the_cache_keeps_what_was_used_last_within_its_bytes() -> None:
    cache: Bounded[str] = Bounded(10)
    cache.put_value("a", "A", cost_bytes=4)
    cache.put_value("b", "B", cost_bytes=4)
    assert cache.get_value("a") == "A"
    cache.put_value("c", "C", cost_bytes=4)
    assert [cache.get_value(key) for key in "abc"] == ["A", None, "C"]
    cache.put_value("a", "A2", cost_bytes=6)
    assert (cache.get_value("a"), cache.held_bytes) == ("A2", 10)
    cache.put_value("d", "D", cost_bytes=11)
    assert (cache.get_value("d"), cache.get_value("a")) == (None, "A2")
    cache.forget_values()
    assert (cache.get_value("a"), cache.held_bytes) == (None, 0)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Tools that were asked for an answer, in order; each takes a while."""
    found: list[str] = []
    real = answers.write_tool

    def slow(opened: object, query: answers.ToolQuestion, *, rows: int) -> bytes:
        found.append(query.tool.name)
        time.sleep(0.3)
        return real(opened, query, rows=rows)  # type: ignore[arg-type]

    monkeypatch.setattr(answers, "write_tool", slow)
    return found


@pytest.mark.slow(seconds=0.4)
def test_equal_questions_at_the_same_time_are_computed_once(
    site: Site, counted: list[str]
) -> None:
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: site.get("data/tool/overview"), range(8)))
    assert {answer.body for answer in found} == {found[0].body}
    assert counted == ["overview_page"]


@pytest.mark.slow(seconds=0.7)
def test_a_known_answer_waits_for_no_computation(
    site: Site, counted: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    site.get("data/tool/overview")
    go_on, real = threading.Event(), answers.write_tool

    def held(opened: object, query: answers.ToolQuestion, *, rows: int) -> bytes:
        answer = real(opened, query, rows=rows)  # type: ignore[arg-type]
        go_on.wait(60)
        return answer

    monkeypatch.setattr(answers, "write_tool", held)
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(site.get, "data/tool/ops")
        while len(counted) < 2:
            time.sleep(0.01)
        assert site.get("data/tool/overview").status == 200
        status = site.get("data/status").json["work"]
        is_computing = not slow.done()
        go_on.set()
        assert slow.result().status == 200
    assert is_computing
    assert status["run"] == site.get("data/runs").json["runs"][0]["id"]
    assert 0 <= status["done"] <= status["of"]
    assert status["elapsed_ms"] >= 0
    assert site.get("data/status").json["work"] is None


def test_who_waits_for_too_long_is_told_to_come_again(
    logdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on, real = threading.Event(), threading.Event(), answers.write_tool

    def held(opened: object, query: answers.ToolQuestion, *, rows: int) -> bytes:
        begun.set()
        go_on.wait(60)
        return real(opened, query, rows=rows)  # type: ignore[arg-type]

    monkeypatch.setattr(answers, "write_tool", held)
    with running(logdir, patience_s=0.05) as site, ThreadPoolExecutor(2) as pool:
        slow = pool.submit(site.get, "data/tool/ops")
        assert begun.wait(60)
        answer = site.get("data/tool/overview")
        go_on.set()
        assert (answer.status, answer.error) == (503, "busy")
        assert answer.headers["Retry-After"] == "5"
        assert slow.result().status == 200


def test_a_failed_computation_leaves_the_next_its_turn(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(answers, "write_findings", lambda *_: 1 / 0)
        assert site.get("data/findings").status == 500
    assert site.get("data/findings").status == 200


def test_an_unreadable_run_is_tried_once_and_is_the_newest_no_more(
    logdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(logdir, "r2", "vm", b"garbage", unix_s=OLD + 5)
    tried = []
    real = store.open_found
    monkeypatch.setattr(
        store,
        "open_found",
        lambda run, **options: tried.append(run.name) or real(run, **options),
    )
    with running(logdir) as site:
        bad = site.get("data/runs").json["runs"][0]
        assert (bad["name"], bad["state"], bad["reason"]) == ("r2", "ready", None)
        asked = [f"data/tool/ops?run={bad['id']}"] * 3 + ["data/tool/ops"] * 2
        assert [site.get(path).status for path in asked] == [422] * 3 + [200] * 2
        bad = site.get("data/runs").json["runs"][0]
        assert (bad["name"], bad["state"]) == ("r2", "unreadable")
        assert "vm.xplane.pb" in bad["reason"]
    assert tried == ["r2", "r1"]


def test_to_look_again_closes_the_run_before_one_that_could_not_be_read(
    logdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(logdir, "r2", "vm", b"garbage")
    read: list[str] = []
    real = store.open_found

    def reading(run: Run, **options: str | None) -> ProfileWithTools:
        read.append(run.name)
        return real(run, **options)

    monkeypatch.setattr(store, "open_found", reading)
    with running(logdir) as site:
        runs = {it["name"]: it["id"] for it in site.get("data/runs").json["runs"]}
        for name, status in (("r1", 200), ("r2", 422)):
            path = f"data/trace/catalogue?run={runs[name]}"
            assert site.get(path).status == status
        assert site.ask("POST", "data/reload", {"X-Stepscope": "1"}).status == 200
        assert site.get(f"data/trace/catalogue?run={runs['r1']}").status == 200
    assert read == ["r1", "r2", "r1"]


def test_answers_stay_below_their_bound(logdir: Path) -> None:
    with running(logdir, answers_bytes=50_000) as site:
        for rows in range(30):
            assert site.get(f"data/tool/ops?rows={rows}").status == 200
            assert site.store.held_bytes <= 50_000


def resident_kib(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1])


@pytest.mark.slow
@pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="reads /proc for the memory"
)
@pytest.mark.integration
def test_memory_is_flat_over_a_thousand_mixed_requests(
    shared_profile: Callable[[str], Path], tmp_path: Path
) -> None:
    """Three runs in turn, every tool, tables, frames and errors, from four clients."""
    logdir = tmp_path / "logs"
    for number, name in enumerate(("healthy", "xla", "keras_fit")):
        (path,) = shared_profile(f"tf_cpu/{name}").rglob("*.xplane.pb*")
        put(logdir, f"r{number}", "vm", path.read_bytes(), unix_s=OLD + number)
    program = [sys.executable, "-m", "stepscope", "serve", str(logdir), "--port", "0"]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            address = re.search(r":(\d+)/", process.stdout.readline())
            assert address is not None
            site = Site(int(address[1]), store=None)  # type: ignore[arg-type]
            after_first, after_all = measured(site, process.pid)
        finally:
            process.terminate()
            process.wait()
    # What is kept is bounded; the first 300 requests filled it. A leak of a tenth of
    # one open profile per request would be hundreds of megabytes.
    assert after_all < after_first * 1.15 + 30_000


def measured(site: Site, pid: int) -> tuple[int, int]:
    runs = [run["id"] for run in site.get("data/runs").json["runs"]]
    tools = [tool["name"] for tool in site.get("data/tools").json["tools"]]
    chance = random.Random(1)  # noqa: S311 - no secret
    kinds = ("tool", "table", "frame", "csv")

    def path(number: int) -> str:
        tool = chance.choice(tools)
        kind = kinds[number % 4]
        # Runs change now and then, as a person changes them.
        run = runs[number // 50 % len(runs)]
        more = f"&rows={chance.randrange(2000)}" if kind == "tool" else ""
        if number % 17 == 0:
            return f"data/tool/{tool}?run={run}x"
        return f"data/{kind}/{tool}?run={run}{more}"

    def ask(part: range) -> int:
        with ThreadPoolExecutor(4) as pool:
            statuses = set(
                pool.map(lambda one: site.get(one).status, [path(n) for n in part])
            )
        assert statuses <= {200, 404}
        return resident_kib(pid)

    first = ask(range(300))
    return first, ask(range(300, 1000))


def test_threads_are_as_many_as_requests_at_a_time_and_end_with_the_server(
    logdir: Path,
) -> None:
    def answering() -> int:
        return sum(one.name == "stepscope-answer" for one in threading.enumerate())

    with running(logdir) as site, ThreadPoolExecutor(16) as pool:
        before = answering()
        list(pool.map(lambda _: site.get("data/status"), range(100)))
        assert 1 <= answering() - before <= 16
    end = time.monotonic() + 60
    while answering() and time.monotonic() < end:
        time.sleep(0.05)
    assert answering() == 0


@pytest.mark.slow(seconds=0.7)
def test_two_light_runs_stay_open_side_by_side(
    logdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(logdir, "r2", "vm", next(logdir.rglob("*.pb")).read_bytes())
    read: list[str] = []
    real = store.open_found

    def reading(run: Run, **options: str | None) -> ProfileWithTools:
        read.append(run.name)
        return real(run, **options)

    monkeypatch.setattr(store, "open_found", reading)
    for events, times in ((opened.LIGHT_EVENTS, 1), (0, 3)):
        read.clear()
        monkeypatch.setattr(opened, "LIGHT_EVENTS", events)
        with running(logdir) as site:
            runs = [each["id"] for each in site.get("data/runs").json["runs"]]
            for run in runs * 3:
                assert site.get(f"data/trace/catalogue?run={run}").status == 200
        assert sorted(read) == sorted(["r1", "r2"] * times)
