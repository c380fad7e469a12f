"""Result of a recording on each host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from stepscope.errors import printable_line

if TYPE_CHECKING:
    from pathlib import Path


class HostOutcome(NamedTuple):
    """Result of a recording on one host.

    Attributes:
        state: "ok", "empty" if the host recorded nothing, or "error".
        text: Description of the error; empty without an error.
        seconds: Duration of the call, in seconds.
        clock_offset_ns: How far the host's clock is ahead of this machine's, in ns;
            None if the host does not return its time.
        clock_doubt_ns: Maximum error of `clock_offset_ns`; None if that is None.
    """

    address: str
    state: Literal["ok", "empty", "error"]
    text: str
    bytes: int
    attempts: int
    seconds: float
    clock_offset_ns: int | None = None
    clock_doubt_ns: int | None = None


class Outcome(NamedTuple):
    """Result of a recording on all hosts.

    Attributes:
        directory: Directory of the run's files; a URL if `logdir` was a URL.
        all: Outcome of each host, in the order of the addresses.
    """

    run: str
    directory: Path | str
    all: tuple[HostOutcome, ...]

    @property
    def hosts(self) -> tuple[str, ...]:
        """Addresses of the hosts that were recorded."""
        return tuple(host.address for host in self.all if host.state == "ok")

    def problems(self) -> str:
        """Return the errors of all failed hosts, in one line; empty without errors."""
        failed = [host for host in self.all if host.state != "ok"]
        return printable_line(
            "; ".join(f"{host.address}: {host.text}" for host in failed)
        )
