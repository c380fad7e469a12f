"""Print two hashes of all answers about each profile below some folders.

The first is of the bytes of every tool's JSON and of the report's. The second is of
that JSON with each text emptied: it is unchanged where only words have changed, and no
key and no number. Compare the hashes of a commit with those of its parent.

    python build_tools/answer_hashes.py FOLDER... [--only TEXT]
"""

import argparse
import gc
import hashlib
import sys
from collections.abc import Iterator, Sequence
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path

import msgspec

import stepscope as ss
from stepscope.analysis.tools import TOOLS
from stepscope.analysis.trace_viewer import TraceViewerResult
from stepscope.analysis.trace_viewer.events import all_spans
from stepscope.analysis.trace_viewer.processes import host_traces
from stepscope.errors import StepscopeError
from stepscope.report import to_json, to_trace_json
from stepscope.report.compose import compose
from stepscope.report.envelope import describe, doubts


class Silent:
    """A receiver of progress that shows none."""

    def stage(self, what: str) -> None:
        """Ignore one stage."""


def runs_below(folder: Path) -> list[Path]:
    """Folders that hold the profiles of one run each."""
    patterns = ("*.xplane.pb", "*.xplane.pb.gz", "*.json", "*.json.gz")
    files = {path for pattern in patterns for path in folder.rglob(pattern)}
    return sorted({path.parent for path in files})


def answers(path: Path) -> Iterator[tuple[str, bytes]]:
    """The JSON of every tool about a run, and of its report, by name."""
    profile = ss.open(path)
    described, quality = describe(profile), doubts(profile)
    for tool in TOOLS:
        result = profile.tool(tool.name)
        answer = to_json.envelope(tool.name, result, profile=described, quality=quality)
        if isinstance(result, TraceViewerResult):
            pieces: list[bytes] = []
            hosts, _ = host_traces(profile)
            to_trace_json.write_trace(answer, hosts, all_spans(profile), pieces.append)
            yield tool.name, b"".join(pieces)
        else:
            yield tool.name, to_json.render_envelope(answer)
    yield "report", to_json.render_document(compose(profile, Silent()))


def without_words(value: object) -> object:
    """The same structure with every text emptied; names of fields stay."""
    if isinstance(value, dict):
        return {key: without_words(one) for key, one in value.items()}
    if isinstance(value, list):
        return [without_words(one) for one in value]
    return "" if isinstance(value, str) else value


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a line for each run, and one for all of them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--only", default="", help="runs whose path holds this text")
    chosen = parser.parse_args(arguments)
    whole = hashlib.sha256(), hashlib.sha256()
    for folder in chosen.folders:
        for run in runs_below(folder):
            if chosen.only not in str(run):
                continue
            own = hashlib.sha256(), hashlib.sha256()
            try:
                with redirect_stderr(StringIO()):
                    for name, written in answers(run):
                        words = msgspec.json.encode(
                            without_words(msgspec.json.decode(written))
                        )
                        for one in (own[0], whole[0]):
                            one.update(name.encode() + written)
                        for one in (own[1], whole[1]):
                            one.update(name.encode() + words)
            except StepscopeError as refused:
                for one in (*own, *whole):
                    one.update(type(refused).__name__.encode())
            bytes_hash, shape_hash = (one.hexdigest()[:12] for one in own)
            print(bytes_hash, shape_hash, run.relative_to(folder), flush=True)
            gc.collect()
    print(*(one.hexdigest()[:12] for one in whole), "all")
    return 0


if __name__ == "__main__":
    sys.exit(main())
