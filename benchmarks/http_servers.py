"""Compare our HTTP server with waitress and cheroot, under slow clients too.

    pip install waitress cheroot
    python benchmarks/http_servers.py LOGDIR

Each server answers the same application over LOGDIR, in turn, on loopback.
"""

import http.client
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from pages import machine

#: Server → the lines that serve `app` at `port`.
SERVERS = {
    "own": "from stepscope.serve.listening import listening_server\n"
    "listening_server('127.0.0.1', port, app).serve_forever()",
    "waitress": "import waitress\n"
    "waitress.serve(app, host='127.0.0.1', port=port, threads=64, _quiet=True,\n"
    "    connection_limit=400, channel_timeout=10, cleanup_interval=1)",
    "cheroot": "from cheroot.wsgi import Server\n"
    "Server(('127.0.0.1', port), app, numthreads=64, timeout=10,\n"
    "    request_queue_size=400).start()",
}
APPLICATION = """
import sys
from stepscope.serve.app import App
from stepscope.serve.pages import page_files
from stepscope.serve.runs.source import open_source
from stepscope.serve.runs.store import Store
from stepscope.serve.security import make_policy
port = int(sys.argv[1])
app = App(
    Store(open_source(sys.argv[2]), kernels=None), page_files(), captures=None,
    policy=make_policy("127.0.0.1", port), program=None, packed=False,
)
"""
SMALL, LARGE = "/data/status", "/definitions.json"
REQUESTS = 500
SLOW_CLIENTS, SLOW_S = 450, 25.0
SILENT_CLIENTS, ASKED_BY_EACH = 100, 30
PATIENCE_S = 12.0


def main() -> int:
    """Measure each server, and print a table."""
    _, logdir = sys.argv
    print(machine())
    for name, serves in SERVERS.items():
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        command = [sys.executable, "-c", APPLICATION + serves, str(port), logdir]
        with subprocess.Popen(command) as server:
            try:
                print(f"{name:9}", *measure_server(port), sep="  ")
            finally:
                server.kill()
    return 0


def measure_server(port: int) -> list[str]:
    """Return what is measured of a server, as texts."""
    while not is_answered(port):
        time.sleep(0.1)
    kept = http.client.HTTPConnection("127.0.0.1", port)
    kept_s = statistics.median(seconds_of(lambda: ask(kept)) for _ in range(REQUESTS))
    new_s = statistics.median(
        seconds_of(lambda: is_answered(port)) for _ in range(REQUESTS)
    )
    return [
        f"kept open {1e3 * kept_s:.2f} ms",
        f"new connection {1e3 * new_s:.2f} ms",
        answers_beside_slow_clients(port),
        f"beside clients that read nothing {seconds_beside_silent_clients(port):.2f} s",
    ]


def answers_beside_slow_clients(port: int) -> str:
    """Ask while many clients send a byte of their request each second."""
    clients = [connect(port, b"GET / HTTP/1.1\r\nX: ") for _ in range(SLOW_CLIENTS)]
    is_over = threading.Event()

    def send_slowly() -> None:
        while not is_over.wait(1.0):
            for client in clients:
                with suppress(OSError):
                    client.send(b"a")

    threading.Thread(target=send_slowly, daemon=True).start()
    time.sleep(2)
    asked, answered, slowest_s = 0, 0, 0.0
    ends_s = time.monotonic() + SLOW_S
    while time.monotonic() < ends_s:
        began_s = time.monotonic()
        answered += is_answered(port)
        asked += 1
        slowest_s = max(slowest_s, time.monotonic() - began_s)
        time.sleep(0.2)
    is_over.set()
    for client in clients:
        client.close()
    return f"beside slow clients {answered} of {asked}, slowest {slowest_s:.2f} s"


def seconds_beside_silent_clients(port: int) -> float:
    """Return the seconds of a request while many clients do not read answers."""
    host = f"Host: 127.0.0.1:{port}\r\nConnection: keep-alive\r\n\r\n"
    request = f"GET {LARGE} HTTP/1.1\r\n{host}".encode() * ASKED_BY_EACH
    clients = [connect(port, request) for _ in range(SILENT_CLIENTS)]
    time.sleep(2)
    seconds = seconds_of(lambda: is_answered(port))
    for client in clients:
        client.close()
    return seconds


def connect(port: int, sent: bytes) -> socket.socket:
    """Return a connection with a small buffer, on which something was sent."""
    client = socket.create_connection(("127.0.0.1", port))
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    client.send(sent)
    return client


def is_answered(port: int) -> bool:
    """Return whether a new connection gets an answer in time."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    try:
        ask(connection)
    except OSError:
        return False
    finally:
        connection.close()
    return True


def ask(connection: http.client.HTTPConnection) -> None:
    """Send a small request, and read the answer."""
    connection.request("GET", SMALL)
    connection.getresponse().read()


def seconds_of(call: Callable[[], object]) -> float:
    """Return the seconds of a call."""
    began_s = time.perf_counter()
    call()
    return time.perf_counter() - began_s


if __name__ == "__main__":
    raise SystemExit(main())
