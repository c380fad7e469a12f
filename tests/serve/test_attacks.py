"""Each attack is refused, and the server lives (docs/serve.md, "What is refused")."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.support.sites.serve import OLD, Site, put, running
from tests.support.traces import blueprint

from stepscope.serve.security import HEADERS

if TYPE_CHECKING:
    from collections.abc import Iterator

MARKUP = "<img src=x onerror=alert(1)></script><script>alert(1)</script>"
SECRET = b"this lies outside the log directory"


@pytest.fixture
def attacked(logdir: Path) -> Iterator[Site]:
    (logdir.parent / "secret.txt").write_bytes(SECRET)
    with running(logdir) as site:
        yield site
        assert site.lives


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:6007",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "localhost@evil.example",
        "192.168.1.7",
        "0.0.0.0",  # noqa: S104 - a name that is sent
        "[::ffff:1.2.3.4]",
        "",
    ],
)
@pytest.mark.sweep(every=4)
def test_a_name_bent_to_this_machine_is_refused(attacked: Site, host: str) -> None:
    answer = attacked.get("data/runs", Host=host)
    assert (answer.status, answer.error) == (403, "refused")
    assert attacked.get("", Host=host).status == 403


@pytest.mark.parametrize("host", ["localhost", "localhost:1234", "127.0.0.1", "[::1]"])
def test_the_names_of_this_machine_are_not(attacked: Site, host: str) -> None:
    assert attacked.get("data/runs", Host=host).status == 200


def test_a_request_without_a_host_is_refused(attacked: Site) -> None:
    assert b" 403 " in attacked.raw(b"GET /data/runs HTTP/1.0\r\n\r\n")[:20]


def test_an_absolute_address_does_not_go_round_the_check(attacked: Site) -> None:
    answer = attacked.raw(
        b"GET http://evil.example/data/runs HTTP/1.1\r\nHost: localhost\r\n\r\n"
    )
    assert b" 403 " in answer[:20] or b" 200 " in answer[:20]
    assert b"evil" not in answer


@pytest.mark.parametrize(
    "path",
    [
        "../secret.txt",
        "../../secret.txt",
        "/../secret.txt",
        "assets/../../secret.txt",
        "%2e%2e/secret.txt",
        "%2e%2e%2fsecret.txt",
        "..%5csecret.txt",
        "....//secret.txt",
        "{secret}",
        "/{secret}",
        "data/tool/../../secret.txt",
        "data/tool/..%2f..%2fsecret.txt",
        "data/tool/%00",
        "static/../app.py",
        "app.py",
        "data/csv/..%2f..%2f..%2fetc%2fpasswd",
    ],
)
@pytest.mark.sweep(every=4)
def test_no_path_leaves_the_page(attacked: Site, logdir: Path, path: str) -> None:
    asked = path.replace("{secret}", str(logdir.parent / "secret.txt"))
    answer = attacked.raw(f"GET /{asked} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    assert answer.startswith(b"HTTP/1.1 404 ")
    assert SECRET not in answer
    assert b"root:" not in answer


@pytest.mark.parametrize(
    "value",
    [
        "../../secret.txt",
        "..%2F..%2Fsecret.txt",
        "/etc/passwd",
        "r1/../../../../secret.txt",
        "plugins/profile/r1",
        "r1",
        ".",
        "%00",
        "a" * 4000,
    ],
)
@pytest.mark.sweep(every=4)
def test_names_are_looked_up_and_never_joined(attacked: Site, value: str) -> None:
    assert attacked.get(f"data/tool/overview?run={value}").error == "unknown_run"
    assert attacked.get(f"data/profile?hosts={value}").error == "unknown_host"
    assert attacked.get(f"data/table/ops?table={value}").error == "unknown_table"


def test_a_link_out_of_the_log_directory_is_not_followed(
    logdir: Path, tmp_path: Path, a1: bytes
) -> None:
    outside = put(tmp_path / "outside", "r9", "vm", a1)
    runs = logdir / "plugins" / "profile"
    (runs / "linked_run").symlink_to(outside.parent)
    (runs / "linked_file").mkdir()
    (runs / "linked_file" / "vm.xplane.pb").symlink_to(outside)
    (runs / "inside").symlink_to(runs / "r1")
    with running(logdir) as site:
        answer = site.get("data/runs").json
        assert [run["name"] for run in answer["runs"]] == ["r1"]
        assert {one["name"] for one in answer["refused"]} == {
            "linked_run",
            "linked_file",
        }


def test_a_link_that_is_made_later_is_not_followed_either(
    logdir: Path, tmp_path: Path, a1: bytes
) -> None:
    with running(logdir) as site:
        run = site.store.current_listing().entries[0]
        path = run.run.hosts[0].paths[0]
        other = put(tmp_path / "outside", "r9", "vm", a1)
        path.unlink()
        path.symlink_to(other)
        # The list is still the old one: the store itself looks again.
        answer = site.get(f"data/profile?run={run.id}")
        assert answer.status in (404, 422)
        assert site.lives


def test_a_pipe_in_the_log_directory_keeps_nobody_waiting(
    logdir: Path, a1: bytes
) -> None:
    run = logdir / "plugins" / "profile" / "pipes"
    run.mkdir()
    os.mkfifo(run / "vm.xplane.pb")
    with running(logdir) as site:
        answer = site.get("data/runs").json
        assert [run["name"] for run in answer["runs"]] == ["r1"]
        assert "is not a regular file" in answer["refused"][0]["reason"]
        assert site.get("data/profile").status == 200
    assert a1


def test_a_change_by_get_is_no_change(attacked: Site) -> None:
    answer = attacked.get("data/reload", X_Stepscope="1")
    assert (answer.status, answer.headers["Allow"]) == (405, "POST")


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"X-Stepscope": "0"},
        {"X-Stepscope": "1", "Sec-Fetch-Site": "cross-site"},
        # A page of another port of this machine, a notebook perhaps.
        {"X-Stepscope": "1", "Sec-Fetch-Site": "same-site"},
        {"X-Stepscope": "1", "Origin": "https://evil.example"},
        {"X-Stepscope": "1", "Origin": "null"},
        {"X-Stepscope": "1", "Origin": "http://localhost:8888"},
    ],
)
@pytest.mark.sweep(every=4)
def test_a_change_from_elsewhere_is_refused(
    attacked: Site, headers: dict[str, str]
) -> None:
    before = attacked.get("data/tool/overview")
    answer = attacked.ask("POST", "data/reload", headers)
    assert (answer.status, answer.error) == (403, "refused")
    assert attacked.store.held_bytes >= len(before.body)


def test_a_change_from_our_page_is_made(attacked: Site) -> None:
    attacked.get("data/tool/overview")
    answer = attacked.ask(
        "POST",
        "data/reload",
        {
            "X-Stepscope": "1",
            "Sec-Fetch-Site": "same-origin",
            "Origin": f"http://127.0.0.1:{attacked.port}",
        },
    )
    assert answer.status == 200
    assert attacked.store.held_bytes == 0


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "X"])
@pytest.mark.sweep(every=3)
def test_other_methods_are_refused(attacked: Site, method: str) -> None:
    assert attacked.ask(method, "data/runs").status == 405
    assert attacked.ask(method, "").status in (404, 405)


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
@pytest.mark.parametrize(
    "how",
    [
        {"Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "script"},
        {"Sec-Fetch-Mode": "cors", "Sec-Fetch-Dest": "empty"},
        # A frame and a link; both begin work that nobody here asked for.
        {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"},
        {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"},
    ],
)
@pytest.mark.sweep(every=4)
def test_another_sites_page_is_given_no_data(
    attacked: Site, site: str, how: dict[str, str]
) -> None:
    for path in ("data/tool/overview", "data/csv/ops", "data/status", "data/runs"):
        answer = attacked.ask("GET", path, {"Sec-Fetch-Site": site, **how})
        assert (answer.status, answer.error) == (403, "refused")
    assert attacked.store.held_bytes == 0


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate"},
        {"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors"},
    ],
)
def test_our_own_page_programs_and_typed_addresses_are_given_data(
    attacked: Site, headers: dict[str, str]
) -> None:
    assert attacked.ask("GET", "data/tool/overview", headers).status == 200


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /data/runs HTTP/1.1\r\nHost: evil.example\r\n\r\n",
        b"GET /data/tool/x?%ff HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 70_000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 200 + b"\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"<script>alert(1)</script>\r\n\r\n",
    ],
)
@pytest.mark.sweep(every=4)
def test_every_answer_carries_the_headers_and_repeats_nothing(
    attacked: Site, data: bytes
) -> None:
    answer = attacked.raw(data)
    head = answer.partition(b"\r\n\r\n")[0].decode()
    for name, value in HEADERS:
        assert f"{name}: {value}" in head
    assert "Python" not in head
    assert "Werkzeug" not in head
    assert b"<script>alert" not in answer
    assert b"aaaaaaaa" not in answer


def test_an_address_that_is_too_long_is_refused(attacked: Site) -> None:
    assert attacked.get("data/runs?" + "a" * 20_000).status == 414
    assert attacked.get("data/runs?" + "a=1&" * 300).error == "bad_parameter"
    assert attacked.get("data/tool/ops?op=" + "a" * 5000).error == "bad_parameter"


def test_a_body_that_is_too_large_is_refused(attacked: Site) -> None:
    answer = attacked.ask(
        "POST", "data/reload", {"X-Stepscope": "1"}, body=b"x" * 100_000
    )
    assert (answer.status, answer.error) == (413, "too_large")


@pytest.mark.parametrize("pattern", ["(.*)*X", "(a|a?)%2BX", "(([a-z/]*)*)*!"])
@pytest.mark.parametrize("option", ["show_name_regexes", "account_type_regexes"])
@pytest.mark.sweep(every=3)
def test_a_pattern_that_never_ends_keeps_nobody_waiting(
    attacked: Site, option: str, pattern: str
) -> None:
    begun = time.monotonic()
    answer = attacked.get(f"data/tool/model_views?{option}={pattern}")
    assert answer.status == 200
    assert attacked.lives
    assert time.monotonic() - begun < 20


@pytest.mark.parametrize("pattern", ["(?=a)", "(", "((a{99}){99}){99}", "a" * 2000])
def test_a_pattern_that_costs_too_much_or_is_none_is_refused(
    attacked: Site, pattern: str
) -> None:
    answer = attacked.get(f"data/tool/model_views?hide_name_regexes={pattern}")
    assert (answer.status, answer.error) == (400, "bad_parameter")
    assert "\n" not in answer.json["error"]["message"]


def test_names_with_markup_stay_text(tmp_path: Path) -> None:
    lines = [
        (MARKUP, "train", 0, 900, {"_r": 1, "step_num": 1}),
        (MARKUP, "cuLaunchKernel", 10, 5, {"correlation_id": 1}),
        ("gpu:0/7(Compute)", MARKUP, 100, 300, {"correlation_id": 1}),
        ("gpu:0/7(Compute)", "=HYPERLINK(1)", 400, 100, {"correlation_id": 1}),
        ("gpu:0/7(Compute)", "\tHYPERLINK(1)", 500, 100, {"correlation_id": 1}),
    ]
    content = bytes(blueprint.trace(lines).data)
    folder = tmp_path / "plugins" / "profile" / MARKUP.replace("/", "_")
    folder.mkdir(parents=True)
    path = folder / f"{MARKUP.replace('/', '_')}.xplane.pb"
    path.write_bytes(content)
    os.utime(path, (OLD, OLD))
    with running(tmp_path) as site:
        for route in ("runs", "profile", "tool/kernel_stats", "table/kernel_stats"):
            answer = site.get(f"data/{route}")
            assert answer.headers["Content-Type"] == "application/json"
            assert answer.headers["X-Content-Type-Options"] == "nosniff"
            assert "<script>alert(1)<" in answer.body.decode()
        report = site.get("data/report")
        assert report.headers["Content-Type"] == "text/plain; charset=utf-8"
        cells = site.get("data/csv/kernel_stats").body.decode()
        assert ",'=HYPERLINK(1)" in cells
        assert ",'\tHYPERLINK(1)" in cells
        missing = site.get(f"data/tool/{MARKUP.replace('/', '_').replace(' ', '+')}")
        assert missing.headers["Content-Type"] == "application/json"


def test_file_names_that_are_no_text_are_shown_as_escapes(
    tmp_path: Path, a1: bytes
) -> None:
    folder = os.fsencode(tmp_path) + b"/plugins/profile/r\xff1"
    path = Path(os.fsdecode(folder + b"/vm\xfe.xplane.pb"))
    path.parent.mkdir(parents=True)
    path.write_bytes(a1)
    os.utime(path, (OLD, OLD))
    with running(tmp_path) as site:
        (run,) = site.get("data/runs").json["runs"]
        assert (run["name"], run["hosts"]) == (r"r\xff1", [r"vm\xfe"])
        answer = site.get("data/tool/overview?hosts=vm%5Cxfe")
        assert answer.status == 200
        assert answer.json["profile"]["run"] == r"r\xff1"


SHRINKING = """
import os, sys
from stepscope.serve.runs.source import open_source
from stepscope.session import open_found

path, how = sys.argv[1:]
source = open_source(path)
run = source.list_runs().runs[0]
profile = open_found(source.local_run(run) if how == "served" else run)
os.truncate(path, 10)
for tool in ("framework_op_stats", "kernel_stats", "memory_profile", "overview_page"):
    profile.tool(tool)
print("lives")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="mapped files differ elsewhere")
@pytest.mark.slow
def test_a_file_that_shrinks_while_it_is_open_does_not_kill(tmp_path: Path) -> None:
    """A process that looks at a mapped file beyond its new end is killed."""
    lines = []
    for at in range(2000):
        launch: dict[str, int | str] = {"correlation_id": at + 1}
        told = {"tf_op": f"op{at}/MatMul:MatMul", "kernel_details": f"regs:{at} grid:1"}
        lines += [
            ("main", "cuLaunchKernel", at * 10, 1, launch),
            ("gpu:0/7(Compute)", "sgemm", at * 10 + 2, 5, launch | told),
        ]
    content = bytes(blueprint.trace(lines).data)
    outcomes = {}
    for how in ("served", "mapped"):
        path = tmp_path / "vm.xplane.pb"
        path.write_bytes(content)
        done = subprocess.run(
            [sys.executable, "-c", SHRINKING, str(path), how],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        outcomes[how] = (done.returncode, done.stdout.strip())
    assert outcomes["served"] == (0, "lives")
    # The danger is real: this is what the server would do with a mapped file.
    assert outcomes["mapped"] == (-signal.SIGBUS, "")


def test_a_defect_is_a_number_and_not_a_traceback(
    attacked: Site, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object, **__: object) -> bytes:
        message = "a secret of the program"
        raise RecursionError(message)

    monkeypatch.setattr("stepscope.serve.runs.answers.write_tool", broken)
    answer = attacked.get("data/tool/overview")
    assert (answer.status, answer.error) == (500, "defect")
    assert b"secret" not in answer.body
    assert answer.json["error"]["id"] in caplog.text
    assert "RecursionError" in caplog.text
