"""Continuous recording, which runs until its client ends it or stops calling.

A call has one request and one answer, so a server does not notice that a client is
gone. The client therefore holds a lease, which each of its calls renews. The memory of
the recording is limited as well.
"""

from __future__ import annotations

import re
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Protocol

from stepscope.capture.base.options import TORCH_PAUSE_S
from stepscope.remote.transport import Refusal, RefusedCapture

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepscope.capture.base.options import ProfilerOptions

#: Seconds without a call after which a client is considered gone.
LEASE_S: Final = 60.0
#: Maximum memory growth during a recording, in bytes; its message is smaller.
MAX_GROWTH_BYTES: Final = 4 * 2**30
#: Seconds between two checks of the lease and of the memory.
_CHECK_S: Final = 0.25
_BYTES_PER_KB: Final = 1024


class Recording(Protocol):
    """A recording of this process into memory."""

    options: ProfilerOptions

    def end_recording(self) -> bytes:
        """Stop the recording and return its bytes."""

    def drop_recording(self) -> None:
        """Stop the recording and discard its events."""

    def is_full(self, max_growth_bytes: int) -> bool:
        """Return whether the process's memory grew too much, and warn if so."""


class Client(NamedTuple):
    """A client that calls the server.

    Attributes:
        peer: Address of the client's connection.
        session: Session id that the client sent; empty without one.
    """

    peer: str
    session: str = ""

    @property
    def host(self) -> str:
        """Client's address without the port, which differs for each connection."""
        return self.peer.rpartition(":")[0]


class _Held:
    def __init__(self, recording: Recording, owner: Client, until_s: float) -> None:
        self.recording = recording
        self.owner = owner
        self.until_s = until_s
        self.was_full = False
        self._content: bytes | None = None
        self._ending = threading.Lock()

    def end_once(self) -> bytes:
        with self._ending:
            if self._content is None:
                self._content = self.recording.end_recording()
            return self._content

    def belongs_to(self, client: Client) -> bool:
        """Return whether a client may read or end this recording.

        A recording that was started with a session id requires that id. Clients of
        XProf reconnect for each call and send no id; their address identifies them.
        """
        if self.owner.session:
            return client.session == self.owner.session
        return client.host == self.owner.host


class Continuous:
    """The continuous recording of this process; only one runs at a time.

    Args:
        lease_s: Seconds without a call after which a client is considered gone.
        max_growth_bytes: Growth of the process at which a recording ends; its bytes are
            then kept for its client until the lease ends.
    """

    def __init__(
        self,
        begin: Callable[[ProfilerOptions], Recording],
        *,
        lease_s: float = LEASE_S,
        max_growth_bytes: int = MAX_GROWTH_BYTES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._begin = begin
        self._lease_s = lease_s
        self._max_growth_bytes = max_growth_bytes
        self._clock = clock
        self._lock = threading.Lock()
        self._held: _Held | None = None
        #: Why the last recording ended without a call of its client.
        self.why_ended = ""

    def start_recording(self, options: ProfilerOptions, owner: Client) -> None:
        """Start a recording for a client.

        Raises:
            RefusedCapture: Another recording is in progress or kept for its client.
        """
        with self._lock:
            if self._held is not None:
                raise self._refusal(Refusal.ALREADY_EXISTS, self._held)
        self._hold_recording(self._begin(options), owner)
        self.why_ended = ""

    def take_snapshot(self, client: Client) -> bytes | None:
        """Return the events since the start or the last snapshot, and keep recording.

        The events are returned even if recording cannot continue. Return None if
        nothing is recorded.

        Raises:
            RefusedCapture: The recording belongs to another client.
        """
        held = self._take_held(client)
        if held is None:
            return None
        content = held.end_once()
        if "torch" in sys.modules:
            time.sleep(TORCH_PAUSE_S)
        with suppress(Exception):
            next_recording = self._begin(held.recording.options)
            self._hold_recording(next_recording, held.owner._replace(peer=client.peer))
        return content

    def stop_recording(self, client: Client) -> None:
        """End the recording, and discard its events."""
        held = self._take_held(client)
        if held is not None:
            held.recording.drop_recording()

    def renew_lease(self, peer: str) -> None:
        """Extend the lease if its holder has called over the same connection."""
        with self._lock:
            if self._held is not None and self._held.owner.peer == peer:
                self._held.until_s = self._clock() + self._lease_s

    def end_recording(self) -> None:
        """End the recording of any client, and discard its events."""
        with self._lock:
            held, self._held = self._held, None
        if held is not None:
            held.recording.drop_recording()

    def check_lease(self) -> None:
        """End the recording if it is full; discard it if its lease has expired."""
        with self._lock:
            held = self._held
            if held is None:
                return
            is_over = self._clock() >= held.until_s
            if is_over:
                self._held = None
                self.why_ended = (
                    f"the recording of {held.owner.host} ended: its client did not "
                    f"come back within {self._lease_s:g} s"
                )
        if is_over:
            held.recording.drop_recording()
        elif not held.was_full and held.recording.is_full(self._max_growth_bytes):
            held.was_full = True
            held.end_once()

    def _hold_recording(self, recording: Recording, owner: Client) -> None:
        held = _Held(recording, owner, self._clock() + self._lease_s)
        with self._lock:
            self._held = held
        threading.Thread(
            target=self._watch_lease, args=(held,), name="stepscope-lease", daemon=True
        ).start()

    def _watch_lease(self, held: _Held) -> None:
        # `wait` on an event that is never set: programs may replace `time.sleep`.
        never_set = threading.Event()
        while self._held is held:
            never_set.wait(min(_CHECK_S, self._lease_s))
            if self._held is held:
                self.check_lease()

    def _take_held(self, client: Client) -> _Held | None:
        with self._lock:
            if self._held is not None and not self._held.belongs_to(client):
                raise self._refusal(Refusal.PERMISSION_DENIED, self._held)
            held, self._held = self._held, None
        return held

    def _refusal(self, refusal: Refusal, held: _Held) -> RefusedCapture:
        left_s = max(held.until_s - self._clock(), 0.0)
        return RefusedCapture(
            refusal,
            f"a client at {held.owner.host} records this program continuously; its "
            f"lease ends in {left_s:.0f} s unless it takes a snapshot until then.",
        )


def memory_bytes(kind: Literal["RssAnon", "VmRSS"]) -> int:
    """Return the bytes that this process uses of a kind of memory; 0 if unknown."""
    try:
        status = Path("/proc/self/status").read_text("ascii", "replace")
    except OSError:
        return 0
    match = re.search(rf"^{kind}:\s*(\d+) kB", status, re.MULTILINE)
    return int(match[1]) * _BYTES_PER_KB if match else 0
