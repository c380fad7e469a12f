"""Prove that a change leaves the answers about recordings as they were.

    python build_tools/answer_hashes.py FOLDER... [--only TEXT]

prints two hashes for each recording below the folders, of every format that has a
reader. The first is of the bytes of every tool's JSON and of the report's. The second
is of that JSON with each text emptied: it is unchanged where only words have changed,
and no key and no number. Compare the lines with those of another commit.

    python build_tools/answer_hashes.py compare OLD NEW FOLDER... [--only TEXT]

asks the command line of two checkouts for the report of each recording, and prints
every field that differs, with both values.
"""

import argparse
import gc
import hashlib
import sys
from collections.abc import Iterator, Sequence
from contextlib import chdir, redirect_stderr
from io import StringIO
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

import stepscope as ss
from stepscope.analysis.tools import TOOLS
from stepscope.analysis.trace_viewer import TraceViewerResult
from stepscope.analysis.trace_viewer.events import trace_spans
from stepscope.analysis.trace_viewer.viewer import host_traces
from stepscope.errors import BadInput, StepscopeError
from stepscope.formats import sniff
from stepscope.formats.opening import find_runs
from stepscope.reporting import to_json, to_trace_json
from stepscope.reporting.compose import compose_report
from stepscope.reporting.envelope import describe_profile, recording_doubts
from stepscope.rundir import Run

sys.path.insert(0, str(Path(__file__).parent))

import answer_differences

#: Formats of files that lie beside recordings and are none: they are refused alike.
NO_RECORDINGS: Final = frozenset({"capture_results", "json"})


class Recording(NamedTuple):
    """One run that the product finds: its name, and the paths to open it by."""

    name: str
    paths: tuple[str, ...]


class Silent:
    """A receiver of progress that shows none."""

    def stage(self, what: str) -> None:
        """Ignore one stage."""


def find_recordings(folder: Path) -> list[Recording]:
    """Every run below a folder, and every other file that is a recording, by name.

    What the product finds in a folder depends on what else lies there, so that each
    folder is looked into by itself. Names and paths are relative to the top.
    """
    runs: dict[frozenset[Path], Run] = {}
    files: list[Path] = []
    for directory in (folder, *sorted(it for it in folder.rglob("*") if it.is_dir())):
        own_files = sorted(entry for entry in directory.iterdir() if entry.is_file())
        files += own_files
        if own_files:
            for run in find_runs(directory).runs:
                runs.setdefault(files_of(run), run)
    known = frozenset[Path]().union(*runs)
    for file in files:
        if file not in known and is_recording(file):
            runs[frozenset({file})] = find_runs(file).runs[0]
    recordings = (recording_of(run, folder) for run in runs.values())
    return sorted(recordings)


def files_of(run: Run) -> frozenset[Path]:
    """The files of all hosts of a run."""
    return frozenset(path for host in run.hosts for path in host.paths)


def is_recording(file: Path) -> bool:
    """Whether a file is of a kind that the product knows, if only to refuse it."""
    try:
        return sniff.detect_format(file) not in NO_RECORDINGS
    except BadInput:
        return False


def recording_of(run: Run, folder: Path) -> Recording:
    """Name a run by its folder where that opens it, or else by its files."""
    directory = run.directory.relative_to(folder)
    files = files_of(run)
    if [files_of(it) for it in find_runs(run.directory).runs] == [files]:
        return Recording(str(directory), (str(directory),))
    paths = tuple(sorted(str(file.relative_to(folder)) for file in files))
    name = paths[0] if len(paths) == 1 else f"{directory} ({run.name})"
    return Recording(name, paths)


def write_answers(paths: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    """The JSON of every tool about a run, and of its report, by name."""
    profile = ss.open(*paths)
    described, quality = describe_profile(profile), recording_doubts(profile)
    for tool in TOOLS:
        result = profile.tool(tool.name)
        answer = to_json.make_envelope(
            tool.name, result, profile=described, quality=quality
        )
        if isinstance(result, TraceViewerResult):
            pieces: list[bytes] = []
            hosts, _ = host_traces(profile)
            to_trace_json.write_trace(
                answer, hosts, trace_spans(profile), pieces.append
            )
            yield tool.name, b"".join(pieces)
        else:
            yield tool.name, to_json.render_envelope(answer)
    yield "report", to_json.render_document(compose_report(profile, Silent()))


def empty_texts(value: object) -> object:
    """The same structure with every text emptied; names of fields stay."""
    if isinstance(value, dict):
        return {key: empty_texts(member) for key, member in value.items()}
    if isinstance(value, list):
        return [empty_texts(member) for member in value]
    return "" if isinstance(value, str) else value


def hash_answers(recording: Recording) -> tuple[str, str]:
    """Hash the bytes of all answers about a recording, and those without texts."""
    of_bytes, of_numbers = hashlib.sha256(), hashlib.sha256()
    try:
        with redirect_stderr(StringIO()):
            for name, written in write_answers(recording.paths):
                numbers = empty_texts(msgspec.json.decode(written))
                of_bytes.update(name.encode() + written)
                of_numbers.update(name.encode() + msgspec.json.encode(numbers))
    except StepscopeError as refusal:
        kind = type(refusal).__name__
        of_bytes.update(f"{kind}: {refusal}".encode())
        of_numbers.update(kind.encode())
    return of_bytes.hexdigest()[:12], of_numbers.hexdigest()[:12]


def print_hashes(folders: Sequence[Path], only: str) -> None:
    """Print a line for each recording, and one for all of them."""
    of_all = hashlib.sha256(), hashlib.sha256()
    for folder in folders:
        with chdir(folder):
            for recording in find_recordings(Path()):
                if only not in f"{folder}/{recording.name}":
                    continue
                hashes = hash_answers(recording)
                for of_one, digest in zip(hashes, of_all, strict=True):
                    digest.update(of_one.encode())
                print(*hashes, recording.name, flush=True)
                gc.collect()
    print(*(digest.hexdigest()[:12] for digest in of_all), "all")


def main(arguments: Sequence[str] | None = None) -> int:
    """Print hashes, or compare two checkouts; 1 where more than texts differs."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    compares = given[:1] == ["compare"]
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    if compares:
        parser.add_argument("compare")
        parser.add_argument("old", type=Path, help="a checkout with its own .venv")
        parser.add_argument("new", type=Path, help="another one")
        parser.add_argument(
            "--cache",
            type=Path,
            default=Path(".cache/answers"),
            help="where the answers of a state of the source are kept",
        )
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--only", default="", help="recordings whose path holds this")
    chosen = parser.parse_args(given)
    if not compares:
        print_hashes(chosen.folders, chosen.only)
        return 0
    recordings = [
        (folder.resolve(), recording.name, recording.paths)
        for folder in chosen.folders
        for recording in find_recordings(folder)
        if chosen.only in f"{folder}/{recording.name}"
    ]
    return answer_differences.compare_checkouts(
        chosen.old.resolve(), chosen.new.resolve(), recordings, chosen.cache.resolve()
    )


if __name__ == "__main__":
    sys.exit(main())
