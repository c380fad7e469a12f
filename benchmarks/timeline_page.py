"""Measure the page's timeline in Chromium on a large trace.

    python benchmarks/timeline_page.py [--events 5300000 …] [--peer] [--write PAGE]

A trace in the shape of a GPU run is served; the page opens it, zooms and pans by keys
as a reader does. Chromium's own trace says how much processor time the script of each
frame took, which a busy machine does not lengthen. What is asked for while the page
moves is asked of the real server. With `--peer` XProf's trace viewer is driven by the
same keys on the same file, and what does not load there is said.
"""

import argparse
import json
import os
import shutil
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from in_browser import ARGUMENTS, why_not
from pages import machine, replace_section
from peer import NoPeer, xprof
from profiles import GPU_EVENTS, gpu_shaped
from served import ServerFailed, environment_of, fresh_logdir, serving

#: What Chromium calls the script of one frame.
FRAME = "FireAnimationFrame"
CATEGORIES = ("devtools.timeline",)
WIDTH, HEIGHT = 1920, 1080
PATIENCE_MS = 600_000
MIB = 1 << 20
STILL = ".trace[aria-busy=false]"
#: XProf's viewer without the page around it, whose charts come from the network.
PEER_DATA = "/data/plugin/profile/data?run=run&tag=trace_viewer@&host=host"
PEER_VIEWER = "/data/plugin/profile/trace_viewer_index.html?" + urlencode(
    {"is_streaming": "true", "is_oss": "true", "trace_data_url": PEER_DATA}
)
#: Whether it shows any track. Its polyfill's lists are not iterable.
PEER_DRAWN = """() => [].some.call(document.querySelectorAll("canvas"),
  (each) => each.getBoundingClientRect().width > 300)"""
PEER_PATIENCE_MS = 120_000
#: Long enough for its animation after a key.
PEER_REST_MS = 700
#: What is done in each part, as keys of the timeline.
PARTS = (
    ("everything in view, zooming in and out", ("w", "w", "s", "s") * 6),
    ("a tenth in view, panning", ("0", "w", "w", "w", "w", "w", *("d", "a", "d") * 8)),
    ("a thousandth in view, panning", ("0", *("w",) * 15, *("d", "d", "a") * 8)),
)


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What the page took.

    Attributes:
        first_ms: From the address to the first sharp picture, the file read before.
        read_ms: The same, while the server reads the file.
        frames: Part → milliseconds of processor time of each frame's script.
        heap_bytes: Memory of the page's script at the end.
        tab_bytes: Memory that the tab's process has to itself then; None where the
            system does not say.
    """

    first_ms: float
    read_ms: float
    frames: dict[str, list[float]]
    heap_bytes: int
    tab_bytes: int | None


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print or write what was found."""
    options = _options(arguments)
    reason = why_not()
    if reason is not None:
        print(reason, file=sys.stderr)
        return 1
    found = {events: measure(gpu_shaped(events)) for events in options.events}
    text = told(found)
    if options.peer:
        text = f"{text}\n\n{told_peer(gpu_shaped(options.events[0]))}"
    print(text)
    if options.write:
        replace_section(options.write, "timeline_page", text)
    return 0


def measure(profile: Path) -> Measured:
    """Open the trace, move, and count."""
    with _served(profile) as port, _browser() as browser:
        context = browser.new_context(
            viewport={"width": WIDTH, "height": HEIGHT}, device_scale_factor=1
        )
        page = context.new_page()
        read_ms = _opened(page, port)
        first_ms = _opened(page, port)
        canvas = page.get_by_role("application", name="Timeline")
        canvas.focus()
        frames = {}
        for name, keys in PARTS:
            browser.start_tracing(page=page, categories=list(CATEGORIES))
            for key in keys:
                page.keyboard.press(key)
                page.wait_for_selector(STILL, timeout=PATIENCE_MS)
            frames[name] = _frames(browser.stop_tracing())
        session = context.new_cdp_session(page)
        session.send("HeapProfiler.collectGarbage")
        used = session.send("Runtime.getHeapUsage")
        tab_bytes = _tab_bytes(browser)
    return Measured(
        first_ms=first_ms,
        read_ms=read_ms,
        frames=frames,
        heap_bytes=int(used["usedSize"] + used.get("backingStorageSize", 0)),
        tab_bytes=tab_bytes,
    )


def _tab_bytes(browser: Any) -> int | None:
    """Return the private memory of the largest tab: others of Chromium's are empty."""
    session = browser.new_browser_cdp_session()
    processes = session.send("SystemInfo.getProcessInfo")["processInfo"]
    tabs = [int(one["id"]) for one in processes if one["type"] == "renderer"]
    return max(filter(None, map(_private_bytes, tabs)), default=None)


def _private_bytes(process: int) -> int | None:
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    except OSError:
        return None
    private = (line.split() for line in lines if line.startswith("Private_"))
    return 1024 * sum(int(words[1]) for words in private)


def measure_peer(profile: Path) -> dict[str, list[float]]:
    """Drive XProf's viewer: part → milliseconds of processor time of each frame.

    Raises:
        NoPeer: XProf is not installed, or its viewer did not load; the reason.
    """
    program = xprof().python.with_name("xprof")
    with fresh_logdir(profile) as logdir:
        environment = environment_of(logdir.parent)

        def command(port: int, other: int) -> list[str]:
            ports = ["--port", str(port), "--grpc_port", str(other)]
            return [str(program), "--logdir", str(logdir), *ports]

        try:
            with serving(command, environment) as server, _browser() as browser:
                return _driven(browser, f"http://127.0.0.1:{server.port}{PEER_VIEWER}")
        except ServerFailed as failure:
            raise NoPeer(f"its server failed: {failure}") from failure


def _driven(browser: Any, address: str) -> dict[str, list[float]]:
    from playwright.sync_api import Error  # noqa: PLC0415 - an extra

    context = browser.new_context(
        viewport={"width": WIDTH, "height": HEIGHT}, device_scale_factor=1
    )
    page = context.new_page()
    try:
        page.goto(address, timeout=PEER_PATIENCE_MS)
        page.wait_for_function(PEER_DRAWN, timeout=PEER_PATIENCE_MS)
    except Error as failure:
        reason = str(failure).partition("\n")[0]
        raise NoPeer(f"its viewer did not load: {reason}") from failure
    page.mouse.click(WIDTH / 2, HEIGHT / 2)
    frames = {}
    for name, keys in PARTS:
        browser.start_tracing(page=page, categories=list(CATEGORIES))
        for key in keys:
            page.keyboard.press(key)
            page.wait_for_timeout(PEER_REST_MS)
        frames[name] = _frames(browser.stop_tracing())
    return frames


def told_peer(profile: Path) -> str:
    """Write what XProf's viewer took, or why nothing was measured."""
    try:
        frames = measure_peer(profile)
    except NoPeer as reason:
        return f"XProf's trace viewer on the same file: {reason}."
    return "\n".join(["XProf's trace viewer, the same keys:", "", *_table(frames)])


def told(found: dict[int, Measured]) -> str:
    """Write the numbers as Markdown, by number of events."""
    lines = [
        (
            f"The window has {WIDTH} by {HEIGHT} pixels at one device pixel each, with "
            "software rendering. The script's time is processor time."
        ),
        machine(),
    ]
    for events, one in found.items():
        tab = (
            ""
            if one.tab_bytes is None
            else f", and the browser tab {_mib(one.tab_bytes)}"
        )
        lines += [
            "",
            f"{events:,} events:",
            "",
            *_table(one.frames),
            "",
            (
                f"The sharp picture appears {one.first_ms / 1000:.1f} s after the page "
                f"is opened, or {one.read_ms / 1000:.1f} s if the server must first "
                "read the file. The page's script then uses "
                f"{_mib(one.heap_bytes)}{tab}."
            ),
        ]
    return "\n".join(lines)


def _mib(size_bytes: int) -> str:
    return f"{size_bytes / MIB:.0f} MiB"


def _table(parts: dict[str, list[float]]) -> Iterator[str]:
    yield "| view | frames | script per frame, median, ms | p95, ms |"
    yield "|---|--:|--:|--:|"
    for name, frames in parts.items():
        if not frames:
            yield f"| {name} | 0 | – | – |"
            continue
        ordered = sorted(frames)
        p95 = ordered[max(-(-len(ordered) * 95 // 100) - 1, 0)]
        median = statistics.median(ordered)
        yield f"| {name} | {len(ordered)} | {median:.1f} | {p95:.1f} |"


def _frames(trace: bytes) -> list[float]:
    """Return the processor time of each frame's script, in milliseconds."""
    events = json.loads(trace)["traceEvents"]
    return [each["tdur"] / 1000 for each in events if each["name"] == FRAME]


def _opened(page: Any, port: int) -> float:
    page.goto("about:blank")
    begun = time.perf_counter()
    page.goto(f"http://127.0.0.1:{port}/#page=trace")
    page.wait_for_selector(STILL, timeout=PATIENCE_MS)
    return 1000 * (time.perf_counter() - begun)


@contextmanager
def _served(profile: Path) -> Iterator[int]:
    def command(logdir: Path, port: int) -> list[str]:
        program = [sys.executable, "-m", "stepscope", "serve", str(logdir)]
        return [*program, "--port", str(port)]

    with (
        fresh_logdir(profile) as logdir,
        serving(lambda port, _: command(logdir, port), os.environ) as server,
    ):
        yield server.port


@contextmanager
def _browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - an extra

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=list(ARGUMENTS)
        )
        yield browser
        browser.close()


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, nargs="+", default=[GPU_EVENTS])
    parser.add_argument(
        "--write", type=Path, help="page with the marks of this section"
    )
    parser.add_argument(
        "--peer", action="store_true", help="drive XProf's trace viewer, too"
    )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
