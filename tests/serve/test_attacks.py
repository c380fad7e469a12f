"""Each attack is refused, and the server lives (docs/serve.md, "What is refused")."""

from __future__ import annotations

import gzip
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import blueprint
from serve_site import OLD, Site, drained, put, running
from stepscope.serve.listening import Limits
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
        run = site.store.listing().entries[0]
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
        assert "no regular file" in answer["refused"][0]["reason"]
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


def test_a_body_without_an_end_is_not_read_to_it(attacked: Site) -> None:
    with socket.create_connection(("127.0.0.1", attacked.port), 20) as sent:
        sent.sendall(
            b"POST /data/reload HTTP/1.1\r\nHost: localhost\r\nX-Stepscope: 1\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n"
        )
        assert swallowed(sent, most=2**26) < 2**26


def swallowed(connection: socket.socket, *, most: int) -> int:
    """How many bytes are taken before the connection is closed, or `most`."""
    total = 0
    while total < most:
        try:
            total += connection.send(b"ffff\r\n" + b"x" * 65535 + b"\r\n")
        except OSError:
            return total
        # The server's own limit of time is not what is tested.
        time.sleep(0.001)
    return total


def test_slow_requests_are_ended(logdir: Path) -> None:
    limits = Limits(request_s=0.5)
    with running(logdir, limits=limits) as site:
        begun = time.monotonic()
        with socket.create_connection(("127.0.0.1", site.port), 20) as slow:
            slow.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n")
            stopped = threading.Event()

            def drip() -> None:
                # A byte now and then keeps a timeout between bytes from ending it.
                while not stopped.wait(0.1):
                    try:
                        slow.sendall(b"X")
                    except OSError:
                        return

            thread = threading.Thread(target=drip)
            thread.start()
            drained(slow)
            stopped.set()
            thread.join()
        assert time.monotonic() - begun < 5
        assert site.lives


def answering() -> list[threading.Thread]:
    return [one for one in threading.enumerate() if one.name == "stepscope-answer"]


def test_more_slow_connections_than_threads_keep_nobody_out(logdir: Path) -> None:
    limits = Limits(request_s=60, threads=4)
    with running(logdir, limits=limits) as site:
        slow = [
            socket.create_connection(("127.0.0.1", site.port), 20) for _ in range(20)
        ]
        for connection in slow:
            connection.sendall(b"GET /data/runs HTTP/1.1\r\nHost: loc")
        begun = time.monotonic()
        assert all(site.get("data/runs").status == 200 for _ in range(10))
        assert time.monotonic() - begun < 20
        assert len(answering()) <= limits.threads
        for connection in slow:
            connection.close()


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\n", b"POST / HTTP/1.1\r\n"])
def test_silent_connections_are_ended(logdir: Path, sent: bytes) -> None:
    with running(logdir, limits=Limits(request_s=0.5)) as site:
        begun = time.monotonic()
        site.raw(sent)
        assert time.monotonic() - begun < 5
        assert site.lives


MUCH = bytes(2**25)


def generous(site: Site) -> None:
    """Give the server an address whose answer no buffer of a connection holds."""
    assert site.server is not None
    app = site.server.app

    def answer(environ: Any, start_response: Any) -> Any:
        if environ["PATH_INFO"] != "/much":
            return app(environ, start_response)
        start_response("200 OK", [("Content-Length", str(len(MUCH)))])
        return [MUCH]

    site.server.app = answer


def greedy(site: Site) -> socket.socket:
    """A client that asks for much and takes nothing."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
    connection.connect(("127.0.0.1", site.port))
    connection.sendall(b"GET /much HTTP/1.1\r\nHost: localhost\r\n\r\n")
    return connection


@pytest.mark.parametrize("kind", ["take nothing", "send half", "send nothing"])
def test_seventy_clients_that_do_nothing_keep_nobody_out(
    logdir: Path, kind: str
) -> None:
    with running(logdir, limits=Limits(request_s=60, answer_s=60)) as site:
        generous(site)
        clients = []
        for _ in range(70):
            if kind == "take nothing":
                clients.append(greedy(site))
                continue
            clients.append(socket.create_connection(("127.0.0.1", site.port), 20))
            if kind == "send half":
                clients[-1].sendall(b"GET /data/runs HTTP/1.1\r\nHost: loc")
        begun = time.monotonic()
        assert all(site.get("data/runs").status == 200 for _ in range(10))
        assert time.monotonic() - begun < 5
        # Nor were they dropped: there is room for all.
        for client in clients:
            client.settimeout(0)
            if kind != "take nothing":
                with pytest.raises(BlockingIOError):
                    client.recv(1)
            client.close()


def test_a_client_that_takes_nothing_is_left(logdir: Path) -> None:
    with running(logdir, limits=Limits(answer_s=0.5)) as site:
        generous(site)
        with greedy(site) as client:
            time.sleep(2)
            # The end of it was never sent.
            assert len(drained(client)) < len(MUCH)


def test_answers_that_nobody_takes_are_bounded_together(logdir: Path) -> None:
    limits = Limits(held_bytes=3 * len(MUCH), answer_s=60)
    with running(logdir, limits=limits) as site:
        generous(site)
        clients = [greedy(site) for _ in range(6)]
        assert site.lives
        time.sleep(1)
        taken = [len(drained(client)) for client in clients]
        for client in clients:
            client.close()
        assert sum(count > len(MUCH) for count in taken) in (2, 3)
        # The last ones are served.
        assert taken[-1] > len(MUCH)


@pytest.mark.parametrize("count", [80, 200])
def test_many_requests_at_once_are_all_answered(logdir: Path, count: int) -> None:
    with running(logdir) as site:
        clients = [
            socket.create_connection(("127.0.0.1", site.port), 30) for _ in range(count)
        ]
        for client in clients:
            client.sendall(
                b"GET /data/tool/overview HTTP/1.1\r\nHost: localhost\r\n\r\n"
            )
        answers = [drained(client) for client in clients]
        for client in clients:
            client.close()
        statuses = {answer.split(b" ")[1] for answer in answers}
        assert statuses <= {b"200", b"503"}


def test_requests_beyond_those_that_may_wait_are_turned_away(logdir: Path) -> None:
    limits = Limits(threads=2, waiting=3, connections=20)
    with running(logdir, limits=limits) as site:
        assert site.server is not None
        app, go_on = site.server.app, threading.Event()

        def patient(environ: Any, start_response: Any) -> Any:
            go_on.wait(20)
            return app(environ, start_response)

        site.server.app = patient
        clients = [
            socket.create_connection(("127.0.0.1", site.port), 30) for _ in range(15)
        ]
        for client in clients:
            client.sendall(b"GET /data/status HTTP/1.1\r\nHost: localhost\r\n\r\n")
        refused = [drained(client) for client in clients[5:]]
        go_on.set()
        given = [drained(client) for client in clients[:5]]
        for client in clients:
            client.close()
        assert all(b" 503 " in answer[:20] for answer in refused)
        assert all(b" 200 " in answer[:20] for answer in given)


def test_what_is_still_being_sent_does_not_take_the_answer_away(logdir: Path) -> None:
    with running(logdir) as site:
        answer = site.raw(
            b"POST /data/reload HTTP/1.1\r\nHost: localhost\r\nContent-Length: 200000"
            b"\r\n\r\n" + b"x" * 200_000
        )
        assert b" 413 " in answer[:20]


BUSY = """
import sys, time
from concurrent.futures import ThreadPoolExecutor
from stepscope.cli import main
from stepscope.serve import answers

def endless(*_, **__):
    # As derivations that are computed side by side: the interpreter waits for them.
    with ThreadPoolExecutor(1) as pool:
        pool.submit(time.sleep, 60).result()

answers.tool = endless
sys.exit(main(["serve", sys.argv[1], "--port", "0"]))
"""


def test_ctrl_c_ends_the_server_at_once_whatever_runs(logdir: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", BUSY, str(logdir)], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            port = int(process.stdout.readline().rpartition(":")[2].strip("/\n"))
            clients = [
                socket.create_connection(("127.0.0.1", port), 20) for _ in range(8)
            ]
            for client in clients[:4]:
                client.sendall(
                    b"GET /data/tool/overview HTTP/1.1\r\nHost: localhost\r\n\r\n"
                )
            for client in clients[4:]:
                client.sendall(b"GET /data/to")
            time.sleep(1)
            begun = time.monotonic()
            process.send_signal(signal.SIGINT)
            assert process.wait(20) == 0
            assert time.monotonic() - begun < 1
            for client in clients:
                client.close()
        finally:
            process.kill()


DAMAGE = {
    "empty": b"",
    "garbage": bytes(range(256)) * 64,
    "text": b"not a profile\n" * 100,
    "huge_length": b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
    "cut_gzip": gzip.compress(b"\x0a\x00" * 10_000)[:40],
    "deep_json": b'{"traceEvents":' + b"[" * 200_000,
    "deep_objects": b'{"schemaVersion":1,"traceEvents":[{"args":'
    + b'{"a":' * 100_000
    + b"1"
    + b"}" * 100_000
    + b"}]}",
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_hostile_profile_is_one_error_and_the_others_open(
    logdir: Path, kind: str
) -> None:
    put(logdir, "hostile", "vm", DAMAGE[kind], unix_s=OLD + 9)
    with running(logdir) as site:
        answer = site.get("data/tool/overview")
        # What stands before damage may be readable; a defect it must not be.
        assert answer.status in (200, 422)
        if answer.status == 422:
            assert answer.error == "unreadable"
            assert "hostile" in answer.json["error"]["message"]
        (good,) = [
            run["id"]
            for run in site.get("data/runs").json["runs"]
            if run["name"] == "r1"
        ]
        assert site.get(f"data/tool/overview?run={good}").status == 200


def test_a_bomb_is_an_error_within_the_limit(
    logdir: Path, a1: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stepscope.serve.source._memory_bytes", lambda: 2**24)
    run = logdir / "plugins" / "profile" / "bomb"
    run.mkdir()
    bomb = run / "vm.xplane.pb.gz"
    bomb.write_bytes(gzip.compress(a1 * (2**25 // len(a1))))
    os.utime(bomb, (OLD + 9, OLD + 9))
    with running(logdir) as site:
        answer = site.get("data/tool/overview")
        assert (answer.status, answer.error) == (422, "unreadable")
        assert "unpacks to more than 8,388,608 bytes" in answer.json["error"]["message"]
        assert site.lives


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
from stepscope.serve.source import source_of
from stepscope.session import open_found

path, how = sys.argv[1:]
source = source_of(path)
run = source.look().runs[0]
profile = open_found(source.here(run) if how == "served" else run)
os.truncate(path, 10)
for tool in ("framework_op_stats", "kernel_stats", "memory_profile", "overview_page"):
    profile.tool(tool)
print("lives")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="mapped files differ elsewhere")
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

    monkeypatch.setattr("stepscope.serve.answers.tool", broken)
    answer = attacked.get("data/tool/overview")
    assert (answer.status, answer.error) == (500, "defect")
    assert b"secret" not in answer.body
    assert answer.json["error"]["id"] in caplog.text
    assert "RecursionError" in caplog.text
