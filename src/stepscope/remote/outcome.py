"""What became of a recording on each host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from stepscope.errors import printable_line

if TYPE_CHECKING:
    from pathlib import Path


class HostOutcome(NamedTuple):
    """What became of a recording on one host.

    Attributes:
        state: "ok", "empty" where it recorded nothing, or "error".
        text: What went wrong; empty where nothing did.
        seconds: How long that took.
        clock_offset_ns: By how much the host's clock is ahead of this machine's; None
            where the host does not tell its time.
        clock_doubt_ns: The offset may be wrong by so much; None as above.
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
    """What became of a recording on all hosts.

    Attributes:
        directory: Directory of the run's files; a URL where `logdir` was one.
        all: Outcome of each host, in the order of the addresses.
    """

    run: str
    directory: Path | str
    all: tuple[HostOutcome, ...]

    @property
    def hosts(self) -> tuple[str, ...]:
        """Addresses of the hosts that were recorded."""
        return tuple(one.address for one in self.all if one.state == "ok")

    def problems(self) -> str:
        """Return what went wrong on which host, in one line; empty for nothing."""
        failed = [one for one in self.all if one.state != "ok"]
        return printable_line("; ".join(f"{one.address}: {one.text}" for one in failed))
