"""What a page is likely to ask next about a large run is answered before it asks."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import pytest
from tests.support.sites.serve import Site, put, running

from stepscope.derive import profile_data
from stepscope.serve.runs.opened import Opened

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if every run had many events."""
    monkeypatch.setattr(profile_data, "worth_threads", lambda _: 2)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The tools whose results were wanted, in order."""
    found: list[str] = []
    real = Opened.tool_result

    def noted(opened: Opened, tool: str, *more: object) -> object:
        found.append(tool)
        return real(opened, tool, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(Opened, "tool_result", noted)
    return found


def wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.usefixtures("large")
def test_pages_after_the_first_find_their_answers(site: Site, asked: list[str]) -> None:
    alone = site.get("data/tool/overview").body
    wait_until(lambda: "pod_viewer" in asked and site.store.work is None)
    wait_until(lambda: not ahead_is_running())
    before = list(asked)
    for tool in ("kernels", "ops", "input", "pod", "model?view=scope"):
        assert site.get(f"data/tool/{tool}").status == 200
    assert site.get("data/tool/overview").body == alone
    assert asked == before


def ahead_is_running() -> bool:
    return any(one.name == "stepscope-ahead" for one in threading.enumerate())


def test_small_runs_are_not_worked_on_ahead(site: Site, asked: list[str]) -> None:
    site.get("data/tool/overview")
    assert not ahead_is_running()
    assert asked == ["overview_page"]


@pytest.mark.slow(seconds=0.6)
@pytest.mark.usefixtures("large")
def test_it_ends_when_another_run_is_opened(
    logdir: Path, a5_b: bytes, asked: list[str]
) -> None:
    put(logdir, "r2", "vm", a5_b)
    with running(logdir) as site:
        ids = [one["id"] for one in site.get("data/runs").json["runs"]]
        for run in ids:
            site.get(f"data/tool/overview?run={run}")
        wait_until(lambda: not ahead_is_running())
        kept = len(asked)
        # The run that is open was answered whole.
        site.get(f"data/tool/pod?run={ids[-1]}")
        assert len(asked) == kept


def test_the_newest_run_is_read_before_anyone_asks(site: Site) -> None:
    site.store.read_newest("overview_page")
    assert site.store.find_entry(None).id in str(site.store._opened)
    assert site.store.work is None


def test_a_log_directory_without_runs_is_left_alone(tmp_path: Path) -> None:
    with running(tmp_path) as site:
        site.store.read_newest("overview_page")
        assert site.get("data/tool/overview").status == 404
