"""Clients that are slow, silent, greedy or many keep nobody out (docs/serve.md)."""

from __future__ import annotations

import http.client
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.sites.serve import Site, drained, running

from stepscope.serve.listening import Limits

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


#: No time of a limit, but of a server that waits for what never comes.
LONG_S = 50


def test_a_body_without_an_end_is_not_read_to_it(site: Site) -> None:
    with socket.create_connection(("127.0.0.1", site.port), LONG_S) as sent:
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


@pytest.mark.slow(seconds=0.5)
def test_slow_requests_are_ended(logdir: Path) -> None:
    limits = Limits(request_s=0.5)
    with running(logdir, limits=limits) as site:
        begun = time.monotonic()
        with socket.create_connection(("127.0.0.1", site.port), LONG_S) as slow:
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
        assert time.monotonic() - begun < LONG_S
        assert site.lives


def answering() -> list[threading.Thread]:
    return [one for one in threading.enumerate() if one.name == "stepscope-answer"]


def test_more_slow_connections_than_threads_keep_nobody_out(logdir: Path) -> None:
    limits = Limits(request_s=60, threads=4)
    with running(logdir, limits=limits) as site:
        slow = [
            socket.create_connection(("127.0.0.1", site.port), LONG_S)
            for _ in range(20)
        ]
        for connection in slow:
            connection.sendall(b"GET /data/runs HTTP/1.1\r\nHost: loc")
        begun = time.monotonic()
        assert all(site.get("data/runs").status == 200 for _ in range(10))
        assert time.monotonic() - begun < LONG_S
        assert len(answering()) <= limits.threads
        for connection in slow:
            connection.close()


@pytest.mark.slow(seconds=0.5)
@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\n", b"POST / HTTP/1.1\r\n"])
@pytest.mark.sweep(every=3)
def test_silent_connections_are_ended(logdir: Path, sent: bytes) -> None:
    with running(logdir, limits=Limits(request_s=0.5)) as site:
        begun = time.monotonic()
        site.raw(sent)
        assert time.monotonic() - begun < LONG_S
        assert site.lives


MUCH = bytes(2**25)


def generous(site: Site) -> list[str]:
    """Give the server an address whose answer no buffer of a connection holds.

    Returns:
        Grows by one entry with every such answer.
    """
    assert site.server is not None
    app, given = site.server.app, []

    def answer(environ: Any, start_response: Any) -> Any:
        if environ["PATH_INFO"] != "/much":
            return app(environ, start_response)
        start_response("200 OK", [("Content-Length", str(len(MUCH)))])
        given.append("much")
        return [MUCH]

    site.server.app = answer
    return given


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)


def states(site: Site) -> list[str]:
    """What the server's connections are at."""
    assert site.server is not None
    return [one.state for one in list(site.server._connections)]


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
            clients.append(socket.create_connection(("127.0.0.1", site.port), LONG_S))
            if kind == "send half":
                clients[-1].sendall(b"GET /data/runs HTTP/1.1\r\nHost: loc")
        begun = time.monotonic()
        assert all(site.get("data/runs").status == 200 for _ in range(10))
        assert time.monotonic() - begun < LONG_S
        # Nor were they dropped: there is room for all.
        for client in clients:
            client.settimeout(0)
            if kind != "take nothing":
                with pytest.raises(BlockingIOError):
                    client.recv(1)
            client.close()


@pytest.mark.slow
def test_a_client_that_takes_nothing_is_left(logdir: Path) -> None:
    with running(logdir, limits=Limits(answer_s=0.5)) as site:
        given = generous(site)
        with greedy(site) as client:
            until(lambda: bool(given) and not states(site))
            # The end of it was never sent.
            assert len(drained(client)) < len(MUCH)


@pytest.mark.slow
def test_answers_that_nobody_takes_are_bounded_together(logdir: Path) -> None:
    limits = Limits(held_bytes=3 * len(MUCH), answer_s=60)
    with running(logdir, limits=limits) as site:
        given = generous(site)
        clients = [greedy(site) for _ in range(6)]
        until(lambda: len(given) == len(clients) and "waits" not in states(site))
        assert site.lives
        for client in clients:
            # From here on they take as fast as they can.
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2**20)
        taken = [len(drained(client)) for client in clients]
        for client in clients:
            client.close()
        # Which of them is a matter of who was answered last, not of who asked last.
        assert sum(count > len(MUCH) for count in taken) in (2, 3)


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
        # Which of them are answered depends on who is read first: only how many counts.
        with ThreadPoolExecutor(len(clients)) as pool:
            answers = as_completed(pool.submit(drained, it) for it in clients)
            refused = [next(answers).result()[:20] for _ in range(10)]
            go_on.set()
            answered = [each.result()[:20] for each in answers]
        for client in clients:
            client.close()
        assert all(b" 503 " in begin for begin in refused)
        assert [b" 200 " in begin for begin in answered] == [True] * 5


def test_what_is_still_being_sent_does_not_take_the_answer_away(logdir: Path) -> None:
    with running(logdir) as site:
        answer = site.raw(
            b"POST /data/reload HTTP/1.1\r\nHost: localhost\r\nContent-Length: 200000"
            b"\r\n\r\n" + b"x" * 200_000
        )
        assert b" 413 " in answer[:20]


def kept(site: Site) -> http.client.HTTPConnection:
    return http.client.HTTPConnection("127.0.0.1", site.port, timeout=30)


STAY = {"Connection": "keep-alive"}


def test_a_connection_serves_one_request_after_the_other(site: Site) -> None:
    connection = kept(site)
    connection.connect()
    first = connection.sock
    bodies = []
    for _ in range(5):
        for path in ("/data/runs", "/data/tool/overview", "/nothing", "/data/runs"):
            connection.request("GET", path, headers=STAY)
            answer = connection.getresponse()
            assert answer.getheader("Connection") == "keep-alive"
            bodies.append(answer.read())
    assert connection.sock is first
    assert bodies[0] == bodies[3] == bodies[-1]
    connection.request("HEAD", "/data/runs", headers=STAY)
    assert connection.getresponse().read() == b""
    connection.request("GET", "/data/runs")
    last = connection.getresponse()
    assert (last.getheader("Connection"), last.read()) == ("close", bodies[0])
    connection.close()


def test_requests_that_come_together_are_answered_in_their_order(site: Site) -> None:
    ask = b"GET /data/%s HTTP/1.1\r\nHost: localhost\r\nConnection: %s\r\n\r\n"
    answer = site.raw(
        ask % (b"status", b"Keep-Alive")
        + ask % (b"nothing", b"keep-alive")
        + ask % (b"tools", b"close")
        + ask % (b"runs", b"close")
    )
    heads = [part[:12] for part in answer.split(b"HTTP/1.1 ")[1:]]
    assert [head[:3] for head in heads] == [b"200", b"404", b"200"]
    assert answer.count(b'"tools"') == 1


@pytest.mark.parametrize(
    "length", [b"Content-Length: 61", b"Transfer-Encoding: chunked"]
)
def test_a_body_is_never_taken_for_the_next_request(site: Site, length: bytes) -> None:
    hidden = b"GET /data/tools HTTP/1.1\r\nHost: localhost\r\nX: aaaaaaaa\r\n\r\n"
    for method in (b"GET /data/status", b"POST /data/reload"):
        answer = site.raw(
            method
            + b" HTTP/1.1\r\nHost: localhost\r\nX-Stepscope: 1\r\n"
            + b"Connection: keep-alive\r\n"
            + length
            + b"\r\n\r\n"
            + hidden
        )
        assert answer.count(b"HTTP/1.1 ") == 1
        assert b"Connection: close" in answer


@pytest.mark.slow(seconds=0.3)
def test_a_connection_that_rests_is_ended(logdir: Path) -> None:
    with running(logdir, limits=Limits(rest_s=0.3)) as site:
        answer = site.raw(
            b"GET /data/runs HTTP/1.1\r\nHost: localhost\r\n"
            b"Connection: keep-alive\r\n\r\n"
        )
        assert b"Connection: keep-alive" in answer


def test_connections_that_rest_keep_nobody_out(logdir: Path) -> None:
    with running(logdir, limits=Limits(rest_s=60, connections=8)) as site:
        connections = [kept(site) for _ in range(8)]
        for connection in connections:
            connection.request("GET", "/data/runs", headers=STAY)
            assert connection.getresponse().read()
        assert all(site.get("data/runs").status == 200 for _ in range(3))
        for connection in connections:
            connection.close()


BUSY = """
import sys, time
from concurrent.futures import ThreadPoolExecutor
from stepscope.cli.main import main
from stepscope.serve.runs import answers

def endless(*_, **__):
    # As derivations that are computed side by side: the interpreter waits for them.
    with ThreadPoolExecutor(1) as pool:
        pool.submit(time.sleep, 60).result()

answers.write_tool = endless
sys.exit(main(["serve", sys.argv[1], "--port", "0"]))
"""


@pytest.mark.slow
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
            assert process.wait(50) == 0
            # What runs lasts a minute.
            assert time.monotonic() - begun < 40
            for client in clients:
                client.close()
        finally:
            process.kill()
