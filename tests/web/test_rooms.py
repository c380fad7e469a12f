"""Folders of the page's sources are rooms: imports point down, in no circle."""

from __future__ import annotations

import re
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

SOURCES = Path(__file__).resolve().parents[2] / "web" / "src"
#: From the ground up: files of a room may import from it and from those before it.
ROOMS = (
    "data/made",
    "state",
    "data",
    "format",
    "parts",
    "charts",
    "timeline",
    "trace",
    "details",
    "pages",
    "shell",
    "main",
)
MOST_FILES = 15
SCRIPTS = sorted(path for path in SOURCES.rglob("*") if path.suffix in {".ts", ".tsx"})
#: What follows `from`, or `import` alone or as a call; types are imported likewise.
IMPORTED = re.compile(r'\b(?:from|import)\s*\(?\s*"(\.[^"]*)"')


def name_of(path: Path) -> str:
    return path.relative_to(SOURCES).as_posix()


def room_of(path: Path) -> str:
    """Its folder; a file beside the folders is a room of its own."""
    folder = path.relative_to(SOURCES).parent.as_posix()
    return path.name.partition(".")[0] if folder == "." else folder


def imports_of(path: Path) -> list[Path]:
    """The scripts that a script imports, their types included."""
    found = IMPORTED.findall(path.read_text("utf-8"))
    return [script_at(path.parent / one) for one in found if not one.endswith(".css")]


def script_at(place: Path) -> Path:
    at = place.resolve()
    candidates = (at.with_name(f"{at.name}.ts"), at.with_name(f"{at.name}.tsx"))
    return next(one for one in (*candidates, at / "index.ts") if one in SCRIPTS)


def test_every_folder_is_a_known_room() -> None:
    assert {room_of(path) for path in SCRIPTS} == set(ROOMS)


def test_a_room_imports_from_those_below_it_only() -> None:
    upward = [
        (name_of(path), name_of(one))
        for path in SCRIPTS
        for one in imports_of(path)
        if room_of(one) not in ROOMS[: ROOMS.index(room_of(path)) + 1]
    ]
    assert upward == []


def test_what_is_made_imports_nothing_that_is_written() -> None:
    made = [path for path in SCRIPTS if room_of(path) == "data/made"]
    assert len(made) > 3
    assert [name_of(path) for path in made if imports_of(path)] == []


def test_no_circle_of_files() -> None:
    graph = {name_of(path): map(name_of, imports_of(path)) for path in SCRIPTS}
    try:
        order = list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        pytest.fail(" ← ".join(error.args[1]))
    assert order.index("state/url.ts") < order.index("shell/app.tsx")


def test_a_file_does_not_repeat_its_room_s_name() -> None:
    repeating = [
        name_of(path)
        for path in SCRIPTS
        if path.parent != SOURCES and path.parent.name in re.split(r"[_.]", path.name)
    ]
    assert repeating == []


def test_rooms_stay_small() -> None:
    rooms = [room_of(path) for path in SCRIPTS if ".test." not in path.name]
    assert {room for room in rooms if rooms.count(room) > MOST_FILES} == set()
