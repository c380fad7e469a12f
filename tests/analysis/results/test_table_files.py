"""Tables are declared in files, each column once, and each where a result has it."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from stepscope.analysis.results.tables import package_reasons
from stepscope.derive.reasons import WHY
from stepscope.trace.schema import NEVER, read_rows, read_tables
from stepscope.unavailable import CODES

SOURCE = Path(__file__).resolve().parents[3] / "src" / "stepscope"
FILES = sorted(SOURCE.rglob("tables.md"))
HEAD = "| column | type | unit | null means | what it is |\n|---|---|---|---|---|\n"
COUNT = "| count | Int64 | | never null | Number of them. |\n"
KIND = "| kind | Enum(one, other) | | not recorded | Kind of it. |\n"


def declared(folder: Path, *sections: str) -> Path:
    path = folder / "tables.md"
    path.write_text("# Tables\n\n" + "\n".join(sections), encoding="utf-8")
    return path


def section(name: str, *rows: str) -> str:
    return f"## {name}\n\nA row is a thing. Order: by time.\n\n{HEAD}{''.join(rows)}"


def test_a_row_is_a_column(tmp_path: Path) -> None:
    path = declared(tmp_path, section("things", COUNT, KIND))
    things = read_tables(path)["things"]
    assert (things.row, things.order) == ("a thing", "by time")
    count, kind = things.columns
    assert (count.name, count.unit, count.null) == ("count", "", NEVER)
    assert (kind.null, kind.about) == ("not recorded", "Kind of it.")
    assert things.categories("kind").categories.to_list() == ["one", "other"]
    assert things.dtypes_from("kind") == {"kind": kind.dtype}
    with pytest.raises(TypeError, match="count"):
        things.categories("count")


def test_a_name_alone_is_a_column_that_tables_share(tmp_path: Path) -> None:
    shared = f"## Shared columns\n\n{HEAD}{COUNT}"
    rows = section("things", KIND, "| count |\n"), section("others", "| count |\n")
    tables = read_tables(declared(tmp_path, shared, *rows))
    assert list(tables) == ["things", "others"]
    assert tables["things"].columns[1] == tables["others"].columns[0]
    with pytest.raises(KeyError, match="count"):
        read_tables(declared(tmp_path, *rows))


@pytest.mark.parametrize(
    "sections",
    [
        (section("things", COUNT, COUNT),),
        (section("things", COUNT), section("things", KIND)),
        (section("things", "| count | Int64 | never null |\n"),),
    ],
)
def test_a_false_declaration_is_refused(
    sections: tuple[str, ...], tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=r"twice|unpack"):
        read_tables(declared(tmp_path, *sections))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.parent.name)
def test_no_column_is_written_twice(path: Path) -> None:
    rows = [path.read_text(encoding="utf-8")]
    if path.parent.name != "trace":
        rows.append((SOURCE / "analysis/results/columns.md").read_text("utf-8"))
    written = Counter(
        line
        for line in "\n".join(rows).splitlines()
        if line.count("|") > 2 and not line.startswith(("| column |", "|---"))
    )
    # Two variants of one name in one file cannot both be shared.
    often = {line for line, count in written.items() if count > 1}
    assert {line.split(" | ")[0] for line in often} <= {
        *("| start_ps", "| dur_ps", "| kernel_name"),
    }


DERIVE = SOURCE / "derive"
ROOMS = [
    *sorted(path.parent for path in (SOURCE / "analysis").rglob("reasons.md")),
    DERIVE,
]


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.name)
def test_each_reason_of_a_room_is_given_and_each_given_is_declared(room: Path) -> None:
    reasons = WHY if room == DERIVE else package_reasons(room.name)
    given = {
        key
        for path in (room.rglob if room == DERIVE else room.glob)("*.py")
        for key in re.findall(r'WHY\["(\w+)"\]', path.read_text(encoding="utf-8"))
    }
    assert given == set(reasons)
    assert {why.code for why in reasons.values()} <= set(CODES)
    rows = read_rows((room / "reasons.md").read_text(encoding="utf-8"))
    assert Counter(key for key, *_ in rows).most_common(1)[0][1] == 1
