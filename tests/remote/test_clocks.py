"""Hosts whose clocks differ: their recordings come onto the clock of the client."""

from __future__ import annotations

import time
from concurrent import futures
from typing import TYPE_CHECKING, Any

import grpc
import pytest

import stepscope as ss
from stepscope.analysis.trace_viewer.viewer import clock_offsets
from stepscope.remote import client
from stepscope.remote.addresses import file_name_of
from stepscope.remote.messages import (
    MonitorResponse,
    ProfileRequest,
    ProfileResponse,
    decode_message,
    encode_message,
)
from stepscope.remote.transport import SERVICE
from stepscope.unavailable import Unavailable
from stepscope.xspace.writing.write import XSpaceBuilder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from stepscope.analysis.tools import ProfileWithTools

#: When both hosts began, by a clock that is right.
BEGAN_NS = 1_700_000_000_000_000_000
S_NS = 1_000_000_000


class Skewed:
    """A host whose clock is ahead, and who tells its time or does not."""

    def __init__(self, ahead_ns: int, *, tells: bool = True) -> None:
        self.ahead_ns = ahead_ns
        self.tells = tells
        self.began_ns: list[int] = []

    def monitor(self, _request: bytes, _context: Any) -> bytes:
        told = str(time.time_ns() + self.ahead_ns) if self.tells else "no clock"
        return encode_message(MonitorResponse(data=told))

    def profile(self, request: bytes, _context: Any) -> bytes:
        opts = decode_message(ProfileRequest, request).opts
        self.began_ns.append(opts.start_timestamp_ns)
        begun = BEGAN_NS + self.ahead_ns
        space = XSpaceBuilder("host", start_ns=begun, stop_ns=begun + S_NS)
        line = space.plane("/host:CPU").line(1, name="main")
        line.event("train", offset_ps=0, dur_ps=5_000, stats={"step_num": 0, "_r": 1})
        return encode_message(ProfileResponse(xspace=space.to_bytes()))


@pytest.fixture
def listening() -> Iterator[Callable[[Skewed], str]]:
    """Start a server of a host; return its address."""
    started = []

    def start(host: Skewed) -> str:
        made = grpc.server(futures.ThreadPoolExecutor(2))
        methods = {
            name: grpc.unary_unary_rpc_method_handler(answer)
            for name, answer in (("Profile", host.profile), ("Monitor", host.monitor))
        }
        handler = grpc.method_handlers_generic_handler(SERVICE, methods)
        made.add_generic_rpc_handlers((handler,))
        port = made.add_insecure_port("127.0.0.1:0")
        made.start()
        started.append(made)
        return f"127.0.0.1:{port}"

    yield start
    for made in started:
        made.stop(None).wait()


def notes_of(profile: ProfileWithTools, host: str) -> dict[str, str]:
    quality = profile.table(host, "quality")
    assert not isinstance(quality, Unavailable)
    return dict(quality.select("kind", "message").iter_rows())


def test_hosts_are_put_on_the_clock_of_who_recorded_them(
    listening: Callable[[Skewed], str], tmp_path: Path
) -> None:
    hosts = Skewed(0), Skewed(7 * S_NS), Skewed(-3600 * S_NS)
    outcome = client.trace([listening(host) for host in hosts], tmp_path, 10)
    profile = ss.open(outcome.directory)
    for made, one in zip(hosts, outcome.all, strict=True):
        host = file_name_of(one.address)
        assert one.clock_offset_ns is not None
        assert one.clock_doubt_ns is not None
        # Half a round trip bounds the error, whichever way was the slower one.
        assert abs(one.clock_offset_ns - made.ahead_ns) <= one.clock_doubt_ns
        environment = profile.table(host, "environment")
        assert not isinstance(environment, Unavailable)
        begun = BEGAN_NS + made.ahead_ns - one.clock_offset_ns
        assert environment["start_unix_ns"].to_list() == [begun]
        assert environment["stop_unix_ns"].to_list() == [begun + S_NS]
        said = notes_of(profile, host)["clock_compared"]
        assert f"{one.clock_offset_ns / 1e6:+.3f} ms" in said
        assert f"± {one.clock_doubt_ns / 1e6:.3f} ms" in said
    # All began at one moment: the timeline says so, but for the doubt of two hosts.
    offsets = clock_offsets(profile)
    assert not isinstance(offsets, Unavailable)
    doubt = sum(one.clock_doubt_ns or 0 for one in outcome.all)
    assert max(offsets.values()) <= doubt * 1000


def test_hosts_whose_clocks_are_not_known_keep_their_own(
    listening: Callable[[Skewed], str], tmp_path: Path
) -> None:
    hosts = Skewed(0, tells=False), Skewed(7 * S_NS, tells=False)
    outcome = client.trace([listening(host) for host in hosts], tmp_path, 10)
    profile = ss.open(outcome.directory)
    offsets = clock_offsets(profile)
    assert not isinstance(offsets, Unavailable)
    assert sorted(offsets.values()) == [0, 7 * S_NS * 1000]
    for host in profile.hosts:
        assert "clock_compared" not in notes_of(profile, host)


def test_a_host_alone_is_put_on_the_clock_of_who_recorded_it_too(
    listening: Callable[[Skewed], str], tmp_path: Path
) -> None:
    """Its clock was compared only where others were recorded with it."""
    host = Skewed(7 * S_NS)
    outcome = client.trace(listening(host), tmp_path, 10)
    (one,) = outcome.all
    assert one.clock_offset_ns is not None
    assert one.clock_doubt_ns is not None
    assert abs(one.clock_offset_ns - host.ahead_ns) <= one.clock_doubt_ns
    # It begins at once: there is nobody to begin together with.
    assert host.began_ns == [0]
    profile = ss.open(outcome.directory)
    environment = profile.table(profile.hosts[0], "environment")
    assert not isinstance(environment, Unavailable)
    begun = BEGAN_NS + host.ahead_ns - one.clock_offset_ns
    assert environment["start_unix_ns"].to_list() == [begun]
    assert "clock_compared" in notes_of(profile, profile.hosts[0])
