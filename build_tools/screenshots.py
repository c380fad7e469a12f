"""Take the pictures of the page that the documentation shows.

    python build_tools/screenshots.py

Shown are a run that `benchmarks/gpu_shaped.py` writes (sixty steps of one GPU), three
of its workers as one run, and recordings of the tests and of the demo. Needs the built
page, Playwright and Chromium (`make test-web` brings them). The pictures are packed as
tightly as PNG allows without losing anything.
"""

import argparse
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import urllib.request
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs" / "images"
EVENTS = 200_000
WORKER_EVENTS = 30_000
#: Seeds of the workers of one run: each is another one.
WORKERS = (20, 21, 22)
DATA = ROOT / "tests" / "data"
RECORDED = {
    "keras": DATA / "tf_keras_fit",
    "h100": ROOT / "src/stepscope/cli/demo_profiles/torch_input_bound",
    "torch": DATA / "gpu" / "torch_healthy",
    "requests": DATA / "tf_cpu" / "inference",
    "two": DATA / "tf_cpu" / "healthy",
}
#: Run → a later one that stands beside it in its log directory.
BESIDE = {"two": DATA / "tf_cpu" / "sequential_map"}
MOST_BYTES = 150_000
LONG_AGO = 1_700_000_000
PATIENCE_MS = 60_000
READY = re.compile(r"at (http://[\d.]+:\d+/)")
ARGUMENTS = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars")


@dataclass(frozen=True)
class Picture:
    """One picture: the view that is opened, and what must be drawn on it.

    `clicks` names a button that is pressed once the view is there.
    """

    name: str
    run: str
    fragment: str
    shows: str
    height: int = 800
    clicks: str = ""


PICTURES = (
    Picture("findings", "gpu", "page=findings", "details.stage"),
    Picture("overview", "gpu", "page=overview_page", "main .bars", height=680),
    Picture("trace", "gpu", "page=trace_viewer&step=30", ".trace[aria-busy=false]"),
    Picture(
        "gap",
        "h100",
        "page=trace_viewer&sel=gap:3:0:55000000000",
        ".trace[aria-busy=false] .chosen .verdict",
        clicks="Explain this gap",
    ),
    Picture(
        "input", "keras", "page=input_pipeline_analyzer", "main .columns [role=list]"
    ),
    Picture("ops", "gpu", "page=framework_op_stats", "main .slices", height=720),
    Picture("kernels", "gpu", "page=kernel_stats", "main .slices", height=560),
    Picture("roofline", "torch", "page=roofline_model", "main .roofline circle"),
    Picture("model", "gpu", "page=model_views", "main [role=treegrid]"),
    Picture("inference", "requests", "page=inference_profile", "main figure"),
    Picture("memory", "gpu", "page=memory_profile", "main [role=slider]"),
    Picture("pod", "workers", "page=pod_viewer", "main .columns [role=list]"),
    Picture("compare", "two", "page=compare&run={first}&base={last}", "main figure"),
    Picture("tfdata", "keras", "page=tf_data_bottleneck_analysis", ".node.bottleneck"),
)
WIDTH = 1200


def main(arguments: Sequence[str] | None = None) -> int:
    """Take every picture, and say how large each is."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--output", type=Path, default=IMAGES, metavar="FOLDER")
    output: Path = parser.parse_args(arguments).output
    output.mkdir(parents=True, exist_ok=True)
    sizes = {}
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium")
            or shutil.which("chromium-headless-shell"),
            args=list(ARGUMENTS),
        )
        for run in dict.fromkeys(picture.run for picture in PICTURES):
            with serving(log_directory(Path(folder), run)) as address:
                for picture in PICTURES:
                    if picture.run == run:
                        page = browser.new_page(
                            viewport={"width": WIDTH, "height": picture.height},
                            color_scheme="light",
                        )
                        target = output / f"{picture.name}.png"
                        target.write_bytes(packed(taken(page, address, picture)))
                        page.close()
                        sizes[target] = target.stat().st_size
        browser.close()
    for target, size in sizes.items():
        print(f"{target}: {size / 1e3:.0f} kB")
    too_large = [target.name for target, size in sizes.items() if size > MOST_BYTES]
    if too_large:
        print(f"larger than {MOST_BYTES / 1e3:.0f} kB: {', '.join(too_large)}")
    return 1 if too_large else 0


def log_directory(folder: Path, run: str) -> Path:
    """A log directory with one run."""
    logdir = folder / run
    if run in RECORDED:
        shutil.copytree(RECORDED[run], logdir)
        if run in BESIDE:
            shutil.copytree(BESIDE[run], logdir, dirs_exist_ok=True)
    else:
        seeds = WORKERS if run == "workers" else WORKERS[:1]
        for number, seed in enumerate(seeds):
            made(logdir, number, seed, EVENTS if len(seeds) == 1 else WORKER_EVENTS)
    settle(logdir)
    return logdir


def made(logdir: Path, number: int, seed: int, events: int) -> None:
    """Write one worker of a made-up run."""
    run = logdir / "plugins" / "profile" / "2026_11_20_12_00_00"
    run.mkdir(parents=True, exist_ok=True)
    script = ROOT / "benchmarks" / "gpu_shaped.py"
    file = run / f"worker{number}.xplane.pb"
    options = ("--events", str(events), "--seed", str(seed))
    subprocess.run(
        [sys.executable, str(script), str(file), *options],
        check=True,
        stdout=subprocess.DEVNULL,
    )


def settle(logdir: Path) -> None:
    """Make the files look old: what has just changed counts as being written."""
    for path in logdir.rglob("*.xplane.pb*"):
        os.utime(path, (LONG_AGO, LONG_AGO))


@contextmanager
def serving(logdir: Path) -> Iterator[str]:
    """The program's own server; its address."""
    command = [sys.executable, "-m", "stepscope", "serve", str(logdir), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            said = ""
            for line in process.stdout or ():
                said += line
                if READY.search(said):
                    break
            found = READY.search(said)
            if found is None:
                raise SystemExit(f"the server ended: {said}")
            yield found[1]
        finally:
            process.terminate()


def taken(page: Page, address: str, picture: Picture) -> bytes:
    """The PNG of a view when it is drawn and nothing moves any more."""
    page.set_default_timeout(PATIENCE_MS)
    first, last = ids(address)
    fragment = picture.fragment.format(first=first, last=last)
    page.goto(f"{address}#{fragment}", wait_until="networkidle")
    if picture.clicks:
        page.get_by_role("button", name=picture.clicks).click()
    page.wait_for_selector(picture.shows)
    page.wait_for_selector("[aria-busy=true]", state="detached")
    page.wait_for_load_state("networkidle")
    return page.screenshot(animations="disabled")


def ids(address: str) -> tuple[str, str]:
    """The ids of the runs that were recorded first and last."""
    with urllib.request.urlopen(f"{address}data/runs") as answer:  # noqa: S310 - ours
        runs = json.load(answer)["runs"]
    return runs[-1]["id"], runs[0]["id"]


def packed(png: bytes) -> bytes:
    """Write the picture in fewer bytes: only its image, compressed anew."""
    kept, image = [], []
    at = 8
    while at < len(png):
        (length,) = struct.unpack_from(">I", png, at)
        kind, body = png[at + 4 : at + 8], png[at + 8 : at + 8 + length]
        if kind == b"IDAT":
            image.append(body)
        elif kind in (b"IHDR", b"PLTE", b"tRNS"):
            kept.append((kind, body))
        at += 12 + length
    rows = zlib.decompress(b"".join(image))
    tried = (
        zlib.compressobj(9, zlib.DEFLATED, 15, 9, strategy)
        for strategy in (zlib.Z_DEFAULT_STRATEGY, zlib.Z_FILTERED, zlib.Z_RLE)
    )
    best = min((each.compress(rows) + each.flush() for each in tried), key=len)
    chunks = [*kept, (b"IDAT", best), (b"IEND", b"")]
    return png[:8] + b"".join(
        struct.pack(">I", len(body)) + kind + body + _checksum(kind + body)
        for kind, body in chunks
    )


def _checksum(data: bytes) -> bytes:
    return struct.pack(">I", zlib.crc32(data))


if __name__ == "__main__":
    sys.exit(main())
