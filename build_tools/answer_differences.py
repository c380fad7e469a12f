"""Compare what the command lines of two checkouts answer about recordings.

Each checkout runs in its own environment, and only its JSON is read: so the two may
differ in everything else. Answers are kept by the state of the source that gave them,
so that those of an old checkout are computed once.
"""

import gzip
import hashlib
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

#: The commands that are asked of each recording: a report, which holds the answers of
#: most tools, and the tools that it leaves out but for the timeline, which is large.
QUESTIONS: Final = {
    "report": ("report", "--format", "json"),
    "roofline_model": ("show", "roofline_model", "--format", "json"),
    "pod_viewer": ("show", "pod_viewer", "--format", "json"),
    "model_views": ("show", "model_views", "--format", "json"),
}
#: Commands that run at a time.
PROCESSES: Final = 2
#: Characters of a value in the table.
SHOWN_WIDTH: Final = 60
INDEX: Final = re.compile(r"\[\d+\]")
#: Fields with the names that a program gave: they may hold blanks, and are no words.
RECORDED_NAME: Final = re.compile(
    r"(?:^|[._])(?:device|function|host|id|kernel|name|op|scope)(?:\[\])?$"
)
FIELDS: Final = Path(__file__).with_name("answer_fields.toml")

#: Folder, name and paths of a recording; the paths are relative to the folder.
Recording = tuple[Path, str, tuple[str, ...]]
#: Concrete path → value of everything in an answer that holds nothing else.
Leaves = dict[str, object]


class Fields(NamedTuple):
    """What is declared of fields that an old and a new checkout name differently.

    Each is a path with `[]` for any index; it stands for all that is below it.

    Attributes:
        renamed: Old path → new path.
        dropped: Old path → why it is gone.
        added: New path → why it is there.
    """

    renamed: Mapping[str, str] = {}
    dropped: Mapping[str, str] = {}
    added: Mapping[str, str] = {}


#: Both checkouts name all fields alike.
NO_FIELDS: Final = Fields()


class Difference(NamedTuple):
    """One field in which two answers differ.

    Attributes:
        kind: "text" where only words differ; "id" for names, "number", and "shape" for
            a field that one of them lacks, or another count of rows.
        path: The field, with `[]` for every index.
        places: In how many places it differs.
        first: The first of these places, with indices.
        old: The value there in the old answer.
        new: The value there in the new answer.
    """

    kind: str
    path: str
    places: int
    first: str
    old: object
    new: object


#: Stands for a field that is not there.
ABSENT: Final = type("Absent", (), {"__repr__": lambda _: "(absent)"})()


def flatten(value: object, path: str = "") -> Iterator[tuple[str, object]]:
    """Every leaf of a JSON value by its path; of a list also its length.

    Reasons for fields that are null have no order: they are taken by their fields.
    """
    if isinstance(value, dict):
        for key, member in value.items():
            yield from flatten(member, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        yield f"{path}.length", len(value)
        members = value
        if all(isinstance(member, dict) and "field" in member for member in value):
            members = sorted(value, key=lambda member: (member["field"], str(member)))
        for index, member in enumerate(members):
            yield from flatten(member, f"{path}[{index}]")
    else:
        yield path, value


def general_path(path: str) -> str:
    """The same path for every row: `[]` in the place of each index."""
    return INDEX.sub("[]", path)


def declared_prefix(path: str, declared: Iterable[str]) -> str | None:
    """The declared path that a general path is, or is below; None for no such."""
    return next(
        (
            prefix
            for prefix in declared
            if path == prefix or path.startswith((f"{prefix}.", f"{prefix}["))
        ),
        None,
    )


def with_new_names(leaves: Leaves, fields: Fields) -> Leaves:
    """The leaves of an old answer under their new names, without the dropped ones."""
    renamed: Leaves = {}
    for path, value in leaves.items():
        general = general_path(path)
        if declared_prefix(general, fields.dropped):
            continue
        prefix = declared_prefix(general, fields.renamed)
        if prefix is not None:
            indices = iter(INDEX.findall(path))
            general = fields.renamed[prefix] + general.removeprefix(prefix)
            path = re.sub(r"\[\]", lambda _: next(indices), general)  # noqa: B023, PLW2901 - called at once; renamed or not
        renamed[path] = value
    return renamed


def kind_of(path: str, old: object, new: object) -> str:
    """Say what differs: words, an id, a number, or what there is at all."""
    if ABSENT in (old, new) or path.endswith(".length"):
        return "shape"
    texts = [value for value in (old, new) if isinstance(value, str)]
    named = RECORDED_NAME.search(general_path(path))
    if not named and any(" " in text for text in texts):
        return "text" if len(texts) > 1 else "shape"
    return "id" if texts else "number"


def find_differences(
    old: object, new: object, fields: Fields = NO_FIELDS
) -> list[Difference]:
    """Every field in which two answers differ, each once for all rows."""
    old_leaves = with_new_names(dict(flatten(old)), fields)
    new_leaves = {
        path: value
        for path, value in flatten(new)
        if not declared_prefix(general_path(path), fields.added)
    }
    differences: dict[tuple[str, str], Difference] = {}
    for path in (*old_leaves, *(new_leaves.keys() - old_leaves.keys())):
        values = old_leaves.get(path, ABSENT), new_leaves.get(path, ABSENT)
        # 1 and 1.0 are one number, and True is none.
        if values[0] == values[1] and len({isinstance(it, bool) for it in values}) == 1:
            continue
        key = kind_of(path, *values), general_path(path)
        known = differences.get(key)
        differences[key] = (
            Difference(*key, 1, path, *values)
            if known is None
            else known._replace(places=known.places + 1)
        )
    return list(differences.values())


def read_fields(file: Path = FIELDS) -> Fields:
    """Read the declared fields."""
    return Fields(**tomllib.loads(file.read_text("utf-8")))


def source_state(checkout: Path) -> str:
    """A name for all that the checkout's `src` holds now, committed or not."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "GIT_INDEX_FILE": str(Path(folder) / "index")}
        for command in (("add", "-A", "src"), ("write-tree",)):
            done = subprocess.run(
                ("git", "-C", str(checkout), *command),  # noqa: S607 - of the user's PATH
                env=environment,
                check=True,
                capture_output=True,
                text=True,
            )
    return done.stdout.strip()


def recording_state(recording: Recording) -> str:
    """A name for a recording and the bytes of its files."""
    folder, name, paths = recording
    digest = hashlib.sha256(f"{folder}\0{name}\0{paths}".encode())
    for path in paths:
        top = folder / path
        for file in sorted(top.rglob("*")) if top.is_dir() else (top,):
            if file.is_file():
                digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()[:24]


def ask_checkout(checkout: Path, recording: Recording) -> dict[str, object]:
    """Question → what the checkout's command line answers about a recording."""
    folder, _, paths = recording
    answers: dict[str, object] = {}
    for question, command in QUESTIONS.items():
        done = subprocess.run(
            (checkout / ".venv/bin/python", "-m", "stepscope", *command, *paths),
            cwd=folder,
            check=False,
            capture_output=True,
        )
        answers[question] = (
            msgspec.json.decode(done.stdout)
            if done.stdout
            else {"status": done.returncode, "refusal": done.stderr.decode()}
        )
    return answers


def keep_answers(checkout: Path, state: str, recording: Recording, cache: Path) -> Path:
    """The file with a checkout's answers about a recording, made where it is not."""
    file = cache / state / f"{recording_state(recording)}.json.gz"
    if not file.exists():
        packed = gzip.compress(msgspec.json.encode(ask_checkout(checkout, recording)))
        file.parent.mkdir(parents=True, exist_ok=True)
        part = file.with_suffix(".part")
        part.write_bytes(packed)
        part.replace(file)
    return file


def shorten(value: object) -> str:
    """Write a value for the table."""
    written = repr(value)
    return written if len(written) <= SHOWN_WIDTH else f"{written[: SHOWN_WIDTH - 1]}…"


def differing_part(old: object, new: object) -> tuple[object, object]:
    """Two values from shortly before where they begin to differ, if they are texts."""
    if not (isinstance(old, str) and isinstance(new, str)):
        return old, new
    pairs = enumerate(zip(old, new, strict=False))
    begin = next((at for at, (left, right) in pairs if left != right), 0)
    shown = max(0, begin - SHOWN_WIDTH // 4)
    return old[shown:], new[shown:]


def compare_checkouts(
    old: Path, new: Path, recordings: Sequence[Recording], cache: Path
) -> int:
    """Print a line for each field of each recording that differs, and the counts.

    Returns:
        0 where nothing differs but texts, else 1.
    """
    fields = read_fields()
    sides = [(checkout, source_state(checkout)) for checkout in (old, new)]
    counts: dict[str, int] = {}
    equal = 0
    with ThreadPoolExecutor(PROCESSES) as pool:
        waiting = [
            [pool.submit(keep_answers, *side, recording, cache) for side in sides]
            for recording in recordings
        ]
        for (_, name, _), both in zip(recordings, waiting, strict=True):
            packed = [gzip.decompress(one.result().read_bytes()) for one in both]
            if packed[0] == packed[1]:
                equal += 1
                continue
            decoded = [msgspec.json.decode(one) for one in packed]
            differences = find_differences(decoded[0], decoded[1], fields)
            equal += not differences
            for it in sorted(differences):
                shown = map(shorten, differing_part(it.old, it.new))
                print(it.kind, name, it.path, f"x{it.places}", *shown, sep="\t")
                counts[it.kind] = counts.get(it.kind, 0) + 1
            sys.stdout.flush()
    told = ", ".join(f"{count} of {kind}" for kind, count in sorted(counts.items()))
    print(f"{equal} of {len(recordings)} recordings equal; {told or 'no'} differences")
    return 0 if counts.keys() <= {"text"} else 1
