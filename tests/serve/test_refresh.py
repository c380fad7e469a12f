"""New runs appear by themselves; nothing is shown before it is whole."""

from __future__ import annotations

import os
import shutil
import threading
import time
from typing import TYPE_CHECKING

import pytest
from tests.support.sites.serve import OLD, put, running

from stepscope.serve.runs.source import LocalSource

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.sites.serve import Site


def until(holds: Callable[[], bool], *, within_s: float = 60) -> None:
    end = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.05)


def names(site: Site) -> list[str]:
    return [run["name"] for run in site.get("data/runs").json["runs"]]


@pytest.fixture
def quick_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server lists its runs as often as these tests would otherwise wait for it."""
    monkeypatch.setattr(LocalSource, "interval_s", 0.05)


@pytest.mark.slow(seconds=1.1)
def test_a_new_run_lands(logdir: Path, site: Site, a5_b: bytes) -> None:
    before = site.get("data/runs")
    assert site.get("data/status").json["runs"] == before.headers["ETag"].strip('"')
    put(logdir, "r2", "b", a5_b, unix_s=OLD + 5)
    until(lambda: names(site) == ["r2", "r1"])
    after = site.get("data/runs", If_None_Match=before.headers["ETag"])
    assert after.status == 200
    assert site.get("data/status").json["runs"] == after.headers["ETag"].strip('"')
    assert site.get("data/profile").json["profile"]["hosts"] == ["b"]


@pytest.mark.slow
def test_frameworks_are_named_once_a_run_was_read(
    logdir: Path, site: Site, a5_b: bytes
) -> None:
    put(logdir, "r2", "b", a5_b, unix_s=OLD + 5)

    def frameworks() -> dict[str, list[str] | None]:
        runs = site.get("data/runs").json["runs"]
        return {run["name"]: run["frameworks"] for run in runs}

    until(lambda: frameworks() == {"r2": None, "r1": None})
    before = site.get("data/status").json["runs"]
    ids = {run["name"]: run["id"] for run in site.get("data/runs").json["runs"]}
    told = site.get(f"data/profile?run={ids['r1']}").json["frameworks"]
    until(lambda: frameworks() == {"r2": None, "r1": told})
    # Pages ask for the list again.
    assert site.get("data/status").json["runs"] != before
    # Another run is open now, and what is known of the first one stays.
    assert site.get(f"data/profile?run={ids['r2']}&hosts=b").status == 200
    until(lambda: frameworks() == {"r2": told, "r1": told})
    # A run that changed may be of another program.
    put(logdir, "r1", "vm", a5_b)
    until(lambda: frameworks()["r1"] is None)


@pytest.mark.usefixtures("quick_looks")
def test_a_log_directory_that_was_empty_gets_its_first_run(
    tmp_path: Path, a1: bytes
) -> None:
    with running(tmp_path) as site:
        assert names(site) == []
        put(tmp_path, "r1", "vm", a1)
        until(lambda: names(site) == ["r1"])
        assert site.get("data/tool/overview").status == 200


@pytest.mark.usefixtures("quick_looks")
def test_a_run_that_changed_is_read_again(
    logdir: Path, site: Site, a5_b: bytes
) -> None:
    def total() -> float:
        rows = site.get("data/tool/kernel_stats").json["data"]["rows"]
        return sum(row["total_us"] for row in rows)

    (before,) = site.get("data/runs").json["runs"]
    assert total() == pytest.approx(2080)
    put(logdir, "r1", "vm", a5_b, unix_s=OLD + 5)
    until(lambda: total() == pytest.approx(2160))
    (after,) = site.get("data/runs").json["runs"]
    assert after["id"] == before["id"]
    assert after["version"] != before["version"]


@pytest.mark.usefixtures("quick_looks")
def test_another_host_of_a_run_arrives_later(
    logdir: Path, site: Site, a5_b: bytes
) -> None:
    assert site.get("data/profile").json["profile"]["hosts"] == ["vm"]
    put(logdir, "r1", "b", a5_b)
    until(lambda: site.get("data/profile").json["profile"]["hosts"] == ["b", "vm"])


@pytest.mark.usefixtures("quick_looks")
def test_a_run_that_is_gone_is_not_there(logdir: Path, site: Site) -> None:
    (run,) = site.get("data/runs").json["runs"]
    shutil.rmtree(logdir / "plugins" / "profile" / "r1")
    until(lambda: names(site) == [])
    answer = site.get(f"data/tool/overview?run={run['id']}")
    assert (answer.status, answer.error) == (404, "unknown_run")


def test_a_run_that_goes_before_it_was_noticed_is_an_error(
    logdir: Path, site: Site
) -> None:
    (run,) = site.get("data/runs").json["runs"]
    shutil.rmtree(logdir / "plugins" / "profile" / "r1")
    answer = site.get(f"data/tool/overview?run={run['id']}")
    assert answer.status == 404
    assert site.lives


@pytest.mark.slow(seconds=0.6)
@pytest.mark.usefixtures("quick_looks")
def test_a_run_that_is_being_written_is_not_read_half(
    tmp_path: Path, a1: bytes
) -> None:
    path = put(tmp_path, "r1", "vm", a1[: len(a1) // 2], unix_s=None)
    # A busy machine may take its time: how long is quiet, is shortened when it may be.
    with running(tmp_path, quiet_s=600) as site:
        (run,) = site.get("data/runs").json["runs"]
        assert run["state"] == "writing"
        answer = site.get("data/tool/overview")
        assert (answer.status, answer.error) == (503, "writing")
        assert int(answer.headers["Retry-After"]) > 0
        with path.open("ab") as file:
            file.write(a1[len(a1) // 2 :])
        site.store._quiet_s = 0.5
        until(lambda: site.get("data/tool/overview").status != 503)
        steps = site.get("data/tool/overview").json["data"]["steps"]
        assert len(steps) == 8


@pytest.mark.slow(seconds=0.7)
@pytest.mark.usefixtures("quick_looks")
def test_a_clock_that_runs_ahead_does_not_keep_a_run_away(
    tmp_path: Path, a1: bytes
) -> None:
    put(tmp_path, "r1", "vm", a1, unix_s=time.time() + 3600)
    with running(tmp_path, quiet_s=600) as site:
        assert site.get("data/tool/overview").status == 503
        site.store._quiet_s = 0.5
        until(lambda: site.get("data/tool/overview").status == 200)


def test_an_older_run_is_the_default_while_the_newest_is_written(
    logdir: Path, a1: bytes
) -> None:
    put(logdir, "r2", "vm", a1, unix_s=None)
    with running(logdir, quiet_s=60) as site:
        assert names(site) == ["r2", "r1"]
        assert site.get("data/profile").json["profile"]["run"] == "r1"


def test_a_change_during_the_reading_is_noticed(
    logdir: Path, a1: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    from stepscope.serve.runs import store  # noqa: PLC0415 - patched

    path = logdir / "plugins" / "profile" / "r1" / "vm.xplane.pb"
    opened = store.open_found
    disturbed = []

    def disturbing(run: object, **options: object) -> object:
        profile = opened(run, **options)  # type: ignore[arg-type]
        if not disturbed:
            disturbed.append(True)
            path.write_bytes(a1)
            os.utime(path, (OLD + 7, OLD + 7))
        return profile

    monkeypatch.setattr(store, "open_found", disturbing)
    with running(logdir) as site:
        assert site.get("data/tool/overview").error == "writing"
        assert site.get("data/tool/overview").status == 200


def test_reload_looks_at_once(logdir: Path, a5_b: bytes) -> None:
    with running(logdir) as site:
        site.store.source.interval_s = 1000
        site.store.current_listing(now=True)
        put(logdir, "r2", "b", a5_b, unix_s=OLD + 5)
        assert names(site) == ["r1"]
        answer = site.ask("POST", "data/reload", {"X-Stepscope": "1"})
        assert answer.status == 200
        assert names(site) == ["r2", "r1"]


def test_a_run_with_results_only_is_told_and_not_shown(logdir: Path, a1: bytes) -> None:
    old = logdir / "plugins" / "profile" / "r0"
    old.mkdir()
    (old / "vm.overview_page.pb").write_bytes(a1)
    with running(logdir) as site:
        assert names(site) == ["r1"]
        (refused,) = site.get("data/runs").json["refused"]
        assert refused["name"] == "r0"
        assert "no trace" in refused["reason"]


def test_a_slow_look_keeps_nobody_waiting(
    logdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running(logdir) as site:
        known = site.store.current_listing()
        looking, go_on = threading.Event(), threading.Event()

        def slow() -> object:
            looking.set()
            go_on.wait(20)
            return looked()

        looked = site.store.source.list_runs
        monkeypatch.setattr(site.store.source, "list_runs", slow)
        thread = threading.Thread(
            target=site.store.current_listing, kwargs={"now": True}
        )
        thread.start()
        assert looking.wait(20)
        assert site.store.current_listing() is known
        assert site.get("data/status").json["runs"] == known.tag
        go_on.set()
        thread.join()


def test_a_directory_of_loose_traces_is_one_run(
    tmp_path: Path, shared_profile: Callable[[str], Path]
) -> None:
    source = shared_profile("torch_cpu/no_schedule")
    files = [path for path in source.rglob("*") if path.is_file()]
    assert files
    with running(source) as site:
        (run,) = site.get("data/runs").json["runs"]
        assert run["hosts"]
        assert site.get("data/tool/ops").status == 200
    assert tmp_path
