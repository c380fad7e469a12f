"""Recording from the page: who may ask for it, and of which programs."""

from __future__ import annotations

import socket
import threading
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import pytest
from tests.support.sites.serve import running

from stepscope.errors import BadUsage
from stepscope.remote.outcome import HostOutcome, Outcome
from stepscope.serve.recorder import Capturing, Settings
from stepscope.serve.security import make_policy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from tests.support.sites.serve import Answer, Site

OURS = {"X-Stepscope": "1", "Sec-Fetch-Site": "same-origin"}
PROGRAMS = ("localhost:6009", "worker-1:6009")


class Recorder:
    """Records nothing, and remembers what it was asked for."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.asked: list[Settings] = []
        self.go_on = threading.Event()
        self.go_on.set()
        self.fails: Exception | None = None

    def __call__(
        self, wanted: Settings, on_progress: Callable[[HostOutcome], None]
    ) -> Outcome:
        self.asked.append(wanted)
        outcomes = []
        for address in wanted.addresses:
            outcomes.append(HostOutcome(address, "ok", "", 123, 1, 0.5))
            on_progress(outcomes[-1])
        assert self.go_on.wait(30)
        if self.fails is not None:
            raise self.fails
        return Outcome(run="new", directory=self.path, all=tuple(outcomes))


@pytest.fixture
def recorder(logdir: Path) -> Recorder:
    return Recorder(logdir)


@pytest.fixture
def site(logdir: Path, recorder: Recorder) -> Iterator[Site]:
    def captures(store: Any) -> Capturing:
        return Capturing(PROGRAMS, recorder, lambda: store.current_listing(now=True))

    with running(logdir, captures=captures) as found:
        yield found


def ask(
    site: Site, wanted: Mapping[str, object], headers: dict[str, str] | None = None
) -> Answer:
    query = urlencode(wanted, doseq=True)
    return site.ask(
        "POST", f"data/capture?{query}", OURS if headers is None else headers
    )


def over(site: Site) -> Any:
    """The last recording, once it is over."""
    end = time.monotonic() + 30
    while True:
        job = site.get("data/captures").json["job"]
        if job["state"] == "over":
            return job
        assert time.monotonic() < end
        time.sleep(0.02)


def test_what_is_asked_for_is_recorded(site: Site, recorder: Recorder) -> None:
    assert site.get("data/captures").json == {"addresses": list(PROGRAMS), "job": None}
    wanted = {
        "duration_ms": 750,
        "delay_ms": 20,
        "attempts": 2,
        "host_tracer_level": 3,
        "device_tracer_level": 0,
        "python_tracer_level": 1,
    }
    assert ask(site, {"address": [PROGRAMS[1]], **wanted}).status == 202
    job = over(site)
    assert recorder.asked == [Settings(addresses=(PROGRAMS[1],), **wanted)]
    assert (job["run"], job["problem"]) == ("new", None)
    assert job["hosts"] == [
        {
            "address": PROGRAMS[1],
            "state": "ok",
            "text": "",
            "bytes": 123,
            "attempts": 1,
            "seconds": 0.5,
        }
    ]


def test_one_recording_at_a_time(site: Site, recorder: Recorder) -> None:
    recorder.go_on.clear()
    try:
        assert ask(site, {"address": [PROGRAMS[0]]}).json["job"]["run"] is None
        second = ask(site, {"address": [PROGRAMS[1]]})
        assert (second.status, second.error) == (409, "recording")
        assert site.get("data/captures").json["job"]["state"] == "recording"
        # The server goes on answering meanwhile.
        assert site.get("data/tool/overview").status == 200
    finally:
        recorder.go_on.set()
    over(site)
    assert len(recorder.asked) == 1
    assert ask(site, {"address": [PROGRAMS[1]]}).status == 202


def test_what_went_wrong_is_said(site: Site, recorder: Recorder) -> None:
    recorder.fails = BadUsage("nobody listens there")
    ask(site, {"address": [PROGRAMS[0]]})
    job = over(site)
    assert (job["run"], job["problem"]) == (None, "nobody listens there")
    recorder.fails = RuntimeError("secret")
    ask(site, {"address": [PROGRAMS[0]]})
    assert over(site)["problem"].startswith("this is a defect")


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"X-Stepscope": "0"},
        {"X-Stepscope": "1", "Sec-Fetch-Site": "cross-site"},
        {"X-Stepscope": "1", "Sec-Fetch-Site": "same-site"},
        {"X-Stepscope": "1", "Origin": "https://evil.example"},
        {"X-Stepscope": "1", "Origin": "null"},
        {"X-Stepscope": "1", "Origin": "http://localhost:8888"},
        {"X-Stepscope": "1", "Host": "evil.example"},
    ],
)
def test_who_is_not_our_page_records_nothing(
    site: Site, recorder: Recorder, headers: dict[str, str]
) -> None:
    answer = ask(site, {"address": [PROGRAMS[0]]}, headers)
    assert (answer.status, answer.error) == (403, "refused")
    assert recorder.asked == []
    assert site.get("data/captures").json["job"] is None


def test_only_named_programs_are_asked(site: Site, recorder: Recorder) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        other.settimeout(0.2)
        port = other.getsockname()[1]
        for address in (
            f"127.0.0.1:{port}",
            f"localhost:{port}",
            "LOCALHOST:6009",
            " localhost:6009",
            "localhost:6009,127.0.0.1:1",
            "@/etc/passwd",
            "",
        ):
            answer = ask(site, {"address": [PROGRAMS[0], address]})
            assert (answer.status, answer.error) == (403, "refused")
        with pytest.raises(TimeoutError):
            other.accept()
    assert recorder.asked == []


@pytest.mark.parametrize(
    "wanted",
    [
        {},
        {"address": [PROGRAMS[0]], "duration_ms": 0},
        {"address": [PROGRAMS[0]], "duration_ms": 10**7},
        {"address": [PROGRAMS[0]], "duration_ms": "long"},
        {"address": [PROGRAMS[0]], "delay_ms": -1},
        {"address": [PROGRAMS[0]], "attempts": 0},
        {"address": [PROGRAMS[0]], "host_tracer_level": 4},
        {"address": [PROGRAMS[0]], "logdir": "elsewhere"},
    ],
)
def test_what_makes_no_sense_is_refused(
    site: Site, recorder: Recorder, wanted: dict[str, object]
) -> None:
    answer = ask(site, wanted)
    assert (answer.status, answer.error) == (400, "bad_parameter")
    assert recorder.asked == []


def test_a_get_records_nothing(site: Site, recorder: Recorder) -> None:
    answer = site.get("data/capture", X_Stepscope="1")
    assert (answer.status, answer.headers["Allow"]) == (405, "POST")
    assert recorder.asked == []


def test_a_server_without_programs_records_nothing(logdir: Path) -> None:
    with running(logdir) as site:
        assert site.get("data/captures").json == {"addresses": [], "job": None}
        answer = ask(site, {"address": ["localhost:6009"]})
        assert (answer.status, answer.error) == (403, "refused")
        assert "--capture" in answer.json["error"]["message"]


def test_without_a_session_nothing_is_recorded(
    logdir: Path, recorder: Recorder
) -> None:
    with running(
        logdir,
        policy=lambda port: make_policy("0.0.0.0", port),  # noqa: S104 - of its rules only
        captures=lambda _: Capturing(PROGRAMS, recorder, lambda: None),
    ) as site:
        answer = ask(site, {"address": [PROGRAMS[0]]})
        assert (answer.status, answer.error) == (403, "refused")
        assert site.get("data/captures").status == 403
    assert recorder.asked == []
