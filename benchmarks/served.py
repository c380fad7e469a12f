"""A server that is being measured: start it, send requests, measure memory, end it.

Only the standard library is imported here, so that both sides get equal requests.
"""

import http.client
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

PATIENCE_S = 900.0
STARTING_S = 120.0
POLL_S = 0.005
OK = 200
KIB = 1024

#: Requests of a page: groups of addresses; those of a group are sent at once.
Page = Sequence[Sequence[str]]


class ServerFailed(Exception):
    """A server did not start or did not answer; the message says which, and how."""


@dataclass(frozen=True, kw_only=True)
class Served:
    """A server that answers.

    Attributes:
        port: Port of the server on loopback.
        pid: Id of the process that was started.
        started_s: Seconds from the start of the process to its first answer.
    """

    port: int
    pid: int
    started_s: float

    def show(self, page: Page) -> float:
        """Return the seconds until all requests of a page are answered.

        Raises:
            ServerFailed: An answer is empty or has another status than 200.
        """
        begun = time.perf_counter()
        for group in page:
            if len(group) == 1:
                self.get(group[0])
                continue
            with ThreadPoolExecutor(len(group)) as pool:
                list(pool.map(self.get, group))
        return time.perf_counter() - begun

    def get(self, path: str) -> bytes:
        """Return the server's answer.

        Raises:
            ServerFailed: The answer is empty or has another status than 200.
        """
        connection = http.client.HTTPConnection(
            "127.0.0.1", self.port, timeout=PATIENCE_S
        )
        try:
            connection.request("GET", f"/{path}", headers={"Accept-Encoding": "gzip"})
            answer = connection.getresponse()
            body = answer.read()
        except OSError as error:
            raise ServerFailed(f"/{path}: {error}") from error
        finally:
            connection.close()
        if answer.status != OK or not body:
            raise ServerFailed(
                f"/{path}: status {answer.status} with {len(body)} bytes"
            )
        return body

    def resident_bytes(self) -> int:
        """Return the resident memory of the process and of all that it started."""
        return sum(map(_resident_bytes, _family(self.pid)))


@contextmanager
def serving(
    command: Callable[[int, int], Sequence[str]], environment: Mapping[str, str]
) -> Iterator[Served]:
    """Start a server, yield it when it answers, and end it after the block.

    Args:
        command: Returns the command for a port to listen at and another free one.
        environment: All environment variables of the server.

    Raises:
        ServerFailed: The server ended, or did not answer in time.
    """
    port, other = _free_ports()
    with tempfile.TemporaryFile() as log:
        begun = time.perf_counter()
        process = subprocess.Popen(
            command(port, other), stdout=log, stderr=log, env=dict(environment)
        )
        try:
            while not _answers(port):
                if process.poll() is not None:
                    log.seek(0)
                    said = log.read().decode("utf-8", "replace").splitlines()
                    last = said[-1] if said else "no message"
                    raise ServerFailed(f"{_state(process)}: {last}")
                if time.perf_counter() - begun > STARTING_S:
                    raise ServerFailed(f"no answer within {STARTING_S:.0f} s")
                time.sleep(POLL_S)
            started_s = time.perf_counter() - begun
            try:
                yield Served(port=port, pid=process.pid, started_s=started_s)
            except ServerFailed as failure:
                after_s = time.perf_counter() - begun
                raise ServerFailed(
                    f"{failure}, {after_s:.0f} s after the start; {_state(process)}"
                ) from failure
        finally:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=10)
            if process.poll() is None:
                process.kill()
                process.wait()


@contextmanager
def fresh_logdir(profile: Path) -> Iterator[Path]:
    """Make a new log directory with one run of one file.

    The file is a hard link, because a server may refuse a symbolic link that leads out
    of its log directory; it is a copy where the file system has no hard links.
    """
    with tempfile.TemporaryDirectory(dir=profile.parent) as logdir:
        run = Path(logdir) / "plugins" / "profile" / "run"
        run.mkdir(parents=True)
        target = run / "host.xplane.pb"
        try:
            target.hardlink_to(profile)
        except OSError:
            shutil.copy2(profile, target)
        yield Path(logdir)


def _state(process: subprocess.Popen[bytes]) -> str:
    # A process that crashes closes its connections first.
    with suppress(subprocess.TimeoutExpired):
        process.wait(timeout=2)
    if process.returncode is None:
        return "the server still ran"
    return f"the server had ended with status {process.returncode}"


def _answers(port: int) -> bool:
    try:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=STARTING_S)
        connection.request("GET", "/")
        return connection.getresponse().status == OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _free_ports() -> tuple[int, int]:
    loopback = ("127.0.0.1", 0)
    with socket.create_server(loopback) as one, socket.create_server(loopback) as other:
        return one.getsockname()[1], other.getsockname()[1]


def _family(pid: int) -> list[int]:
    """A process and all below it."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            with suppress(OSError):
                # The name may hold blanks and brackets; the parent's id is the second
                # field after it.
                stat = (folder / "stat").read_text().rpartition(")")[2].split()
                children.setdefault(int(stat[1]), []).append(int(folder.name))
    found = [pid]
    for each in found:
        found += children.get(each, [])
    return found


def _resident_bytes(pid: int) -> int:
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * KIB
    return 0


def environment_of(home: Path) -> dict[str, str]:
    """Variables for a server: nothing that a user has set, and a home of its own."""
    return {"PATH": os.environ["PATH"], "HOME": str(home)}
