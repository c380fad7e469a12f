"""Step gauges as OpenMetrics text, and the HTTP server that Prometheus queries."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Final

from stepscope.errors import BadUsage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from stepscope.capture.flight.nvml import DeviceUse
    from stepscope.capture.flight.watch import Step

CONTENT_TYPE: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"
_NS_PER_S: Final = 1_000_000_000
#: Maximum number of annotations with a separate share; smaller shares are summed.
_MAX_PARTS: Final = 16
_MAX_LOOPS: Final = 16
_REMAINDER: Final = "others"
_NONE: Final = "no annotation"

_ESCAPED: Final = str.maketrans({"\\": "\\\\", "\n": "\\n", '"': '\\"'})
#: Suffix, labels and value of each sample of a metric family.
_Samples = list[tuple[str, dict[str, str], float]]
#: Name, kind, help text and samples of a metric family.
_Family = tuple[str, str, str, _Samples]


class Gauges:
    """Totals and latest values of the steps, updated as steps end."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._steps: Counter[str] = Counter()
        self._seconds: dict[str, float] = {}
        self._medians: dict[str, float] = {}
        self._parts: dict[str, float] = {}
        self._input: float | None = None
        self._slow = 0
        self._last_s: float | None = None

    def add_steps(
        self,
        steps: Sequence[Step],
        medians_ns: Mapping[str, int],
        parts_ns: Mapping[str, int],
        input_ns: int | None,
        *,
        slow: int,
        wall_s: float,
    ) -> None:
        """Add steps that ended.

        Args:
            parts_ns: Self time of annotations in the last steps, in ns; "" is other
                time.
            input_ns: Time in annotations that fetch input, in ns; None without them.
        """
        if not steps:
            return
        total = sum(parts_ns.values())
        largest = sorted(parts_ns, key=lambda name: -parts_ns[name])[:_MAX_PARTS]
        with self._lock:
            for step in steps:
                known = step.name in self._steps or len(self._steps) < _MAX_LOOPS
                name = step.name if known else _REMAINDER
                self._steps[name] += 1
                before_s = self._seconds.get(name, 0.0)
                self._seconds[name] = before_s + step.dur_ns / _NS_PER_S
            self._medians = {loop: ns / _NS_PER_S for loop, ns in medians_ns.items()}
            if total:
                parts = {part or _NONE: parts_ns[part] / total for part in largest}
                if len(parts_ns) > len(largest):
                    parts[_REMAINDER] = max(0.0, 1 - sum(parts.values()))
                self._parts = parts
                self._input = None if input_ns is None else input_ns / total
            self._slow += slow
            self._last_s = wall_s

    def metrics_text(
        self, *, written: Iterable[str], listening: bool, devices: Sequence[DeviceUse]
    ) -> str:
        """Return all gauges as OpenMetrics text."""
        with self._lock:
            families = self._step_families()
        memory: _Samples = []
        with contextlib.suppress(OSError, ValueError, IndexError):
            pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
            memory.append(("", {}, pages * os.sysconf("SC_PAGE_SIZE")))
        cause_samples: _Samples = [
            ("_total", {"why": cause}, count)
            for cause, count in sorted(Counter(written).items())
        ]
        families += [
            (
                *("stepscope_listening", "gauge", "1 while steps are observed."),
                [("", {}, float(listening))],
            ),
            (
                "stepscope_profiles_written",
                "counter",
                "Number of written profiles, by cause.",
                cause_samples,
            ),
            # The `process_…` names are those of Prometheus's client libraries.
            ("process_resident_memory_bytes", "gauge", "Resident memory.", memory),
            (
                *("process_cpu_seconds", "counter", "CPU time of all threads."),
                [("_total", {}, time.process_time())],
            ),
        ]
        families += [
            (
                *(name, "gauge", about),
                [
                    (
                        "",
                        {"device": str(number), "name": device.name},
                        getattr(device, field),
                    )
                    for number, device in enumerate(devices)
                ],
            )
            for field, (name, about) in _DEVICE_GAUGES.items()
        ]
        # A metric family without samples is left out: its value is unknown, not 0.
        lines = [
            line for family in families if family[3] for line in _family_lines(*family)
        ]
        return "\n".join([*lines, "# EOF\n"])

    def _step_families(self) -> list[_Family]:
        sums: _Samples = []
        for loop, count in self._steps.items():
            sums.append(("_count", {"loop": loop}, count))
            sums.append(("_sum", {"loop": loop}, self._seconds[loop]))
        return [
            ("stepscope_step_seconds", "summary", "Duration of steps.", sums),
            (
                *("stepscope_step_median_seconds", "gauge"),
                "Median duration of the last 64 steps.",
                [
                    ("", {"loop": loop}, seconds)
                    for loop, seconds in self._medians.items()
                ],
            ),
            (
                *("stepscope_step_part_ratio", "gauge"),
                "Self time of each annotation, as a share of the last steps.",
                [("", {"part": part}, ratio) for part, ratio in self._parts.items()],
            ),
            (
                *("stepscope_step_input_ratio", "gauge"),
                "Share of the last steps' time in annotations that fetch input.",
                [] if self._input is None else [("", {}, self._input)],
            ),
            (
                *("stepscope_slow_steps", "counter", "Number of slow steps."),
                [("_total", {}, self._slow)],
            ),
            (
                *("stepscope_last_step_timestamp_seconds", "gauge"),
                "Unix time when the last step ended.",
                [] if self._last_s is None else [("", {}, self._last_s)],
            ),
        ]


#: Field of `DeviceUse` → name and help text of its gauge.
_DEVICE_GAUGES: Final = {
    "busy": (
        "stepscope_device_busy_ratio",
        "Share of the driver's last sampling period in which a kernel ran.",
    ),
    "used_bytes": ("stepscope_device_memory_used_bytes", "Device memory in use."),
    "total_bytes": ("stepscope_device_memory_bytes", "Memory of the device."),
}


def _family_lines(name: str, kind: str, about: str, samples: _Samples) -> Iterator[str]:
    yield f"# TYPE {name} {kind}"
    yield f"# HELP {name} {about}"
    for suffix, labels, value in samples:
        escaped = {key: label.translate(_ESCAPED) for key, label in labels.items()}
        listed = ",".join(f'{key}="{label}"' for key, label in escaped.items())
        yield f"{name}{suffix}{f'{{{listed}}}' if listed else ''} {value!r}"


_PATH: Final = "/metrics"
#: Seconds after which a client that sends nothing is disconnected.
_PATIENCE_S: Final = 5.0
_LAST_PORT: Final = 65535
_LOOPBACK: Final = "127.0.0.1"


class MetricsServer:
    """HTTP server that answers `/metrics` until it is stopped."""

    def __init__(self, where: int | str, text: Callable[[], str]) -> None:
        """Start to listen.

        Raises:
            BadUsage: The address is invalid, or listening there fails.
        """
        host, _, port = str(where).rpartition(":")
        if not port.isdecimal() or int(port) > _LAST_PORT:
            raise BadUsage(
                f"metrics={where!r} is not a port or host:port; give for instance "
                '9464, or "0.0.0.0:9464" for other machines too.'
            )
        try:
            self._server = _Server(
                (host.strip("[]") or _LOOPBACK, int(port)), _handler_class(text)
            )
        except OSError as error:
            raise BadUsage(
                f"metrics={where!r}: cannot listen there ({error.strerror or error}); "
                "give another port, or 0 for a free one."
            ) from error
        bound_host, bound_port = self._server.server_address[:2]
        self.address = f"{bound_host!s}:{bound_port}"
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="stepscope-metrics", daemon=True
        )
        self._thread.start()

    def stop_serving(self) -> None:
        """Stop the server."""
        self._server.shutdown()
        self._server.server_close()

    def forget_in_child(self) -> None:
        """Close the socket in a forked child: the port belongs to the parent."""
        self._server.socket.close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Do not log errors of clients, which would mix with the program's output."""


def _handler_class(text: Callable[[], str]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = _PATIENCE_S

        def do_GET(self) -> None:
            if self.path.partition("?")[0] != _PATH:
                self.send_error(404)
                return
            body = text().encode()
            self.send_response(200)
            self.send_header("Content-Type", CONTENT_TYPE)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - parameter name of the base class
            """Do not log requests."""

    return Handler
