"""Cut evidence out of recordings, and see what rules that failed say without it.

    python benchmarks/cut_evidence.py [--cases] [--profiles FOLDER]

Each recording is judged as it is, and once more for each cut: the recording without one
kind of data, such as the calls of its input pipeline. A rule that failed (a warning or
critical) has to give a reason why it cannot tell or does not apply, or still fails from
other data. It may pass only if another finding holds half of its time. Uncut twins are
the recordings with all data for want of which a rule could not tell: it has to tell.
"""

import argparse
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
import numpy as np
import polars as pl

from stepscope.advice.engine import evaluate, signals_of
from stepscope.advice.finding import Finding, Status
from stepscope.derive.names.event_kinds import EventFlag, EventKinds, HostClass
from stepscope.derive.names.event_kinds import event_kinds as kinds_of_events
from stepscope.derive.profile_data import ProfileData
from stepscope.session import open_profile
from stepscope.trace.model import TraceData
from stepscope.trace.schema import NEVER
from stepscope.trace.tables import TABLES
from stepscope.unavailable import Unavailable

DATA = Path(__file__).resolve().parents[1] / "tests" / "data"
#: Files of recordings; those of one folder are one run.
RECORDINGS = ("*.xplane.pb*", "*.trace.json.gz", "trace.json.gz")
Frames = dict[str, pl.DataFrame]
#: Outcomes of a case, in the order of the columns of the table.
OUTCOMES = ("cannot_tell", "not_applicable", "still_found", "elsewhere", "false_pass")
#: Part of a finding's time that another finding has to hold instead.
MIN_HELD_ELSEWHERE = 0.5


class Cut(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One kind of data, and where it is in a recording: see `cut_evidence.toml`."""

    name: str
    tables: tuple[str, ...] = ()
    columns: dict[str, tuple[str, ...]] = {}
    flags: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    tracks: tuple[str, ...] = ()

    def event_types(self, kinds: EventKinds) -> np.ndarray:
        """Return by event type whether its events are not recorded."""
        flags = EventFlag(sum(EventFlag[name] for name in self.flags))
        classes = [HostClass[name] for name in self.classes]
        return kinds.has(flags) | np.isin(kinds.host_class, classes)


DECLARED = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())
CUTS = msgspec.convert(DECLARED["cuts"], tuple[Cut, ...])


def cut_trace(
    trace: TraceData, cut: Cut, kinds: EventKinds | Unavailable
) -> TraceData | None:
    """Return the trace without the data of a cut; None if it has none of it."""
    tables = ((name, trace.table(name)) for name in TABLES)
    before = {
        name: frame
        for name, frame in tables
        if not isinstance(frame, Unavailable) and len(frame)
    }
    frames = dict(before)
    for name, keep in rows_to_keep(before, cut, kinds, trace.strings):
        drop_rows(frames, name, keep)
    for name, columns in cut.columns.items():
        nullable = (it.name for it in TABLES[name].columns if it.null != NEVER)
        if name in frames:
            frames[name] = frames[name].with_columns(
                pl.lit(None, frames[name].schema[column]).alias(column)
                for column in columns or nullable
            )
    gone = Unavailable(
        code="NOT_RECORDED", reason=f"No {cut.name}.", remedy=f"Record {cut.name}."
    )
    changed = {
        name: gone if name in cut.tables or not len(frame) else frame
        for name, frame in frames.items()
        if name in cut.tables or not frame.equals(before[name])
    }
    return trace.with_tables(changed) if changed else None


def rows_to_keep(
    frames: Frames, cut: Cut, kinds: EventKinds | Unavailable, strings: Sequence[str]
) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the tables of which a cut drops rows, with masks of the rows that stay."""
    if "events" not in frames or isinstance(kinds, Unavailable):
        return
    kind_of_track = frames["tracks"]["kind"].cast(pl.String)
    type_of_event = frames["events"]["type"].to_numpy()
    on_thread = kind_of_track.eq("thread").gather(frames["events"]["track"]).to_numpy()
    keep = ~(cut.event_types(kinds)[type_of_event] & on_thread)
    handles = [handle for handle, text in enumerate(strings) if text in cut.keys]
    keys = pl.col("key").is_in(handles)
    if "stats" in frames:
        keep[frames["stats"].filter(keys)["event"].to_numpy()] = False
    if "type_stats" in frames:
        types = frames["type_stats"].filter(keys)["type"].to_numpy()
        keep &= ~np.isin(type_of_event, types)
    if not keep.all():
        yield "events", keep
    if (of_kind := kind_of_track.is_in(cut.tracks)).any():
        yield "tracks", ~of_kind.to_numpy()


def drop_rows(frames: Frames, name: str, keep: np.ndarray) -> None:
    """Drop rows of a table and all rows that refer to them; number the rest anew."""
    frames[name] = frames[name].filter(pl.Series(keep))
    new_row = np.concatenate([[0], np.cumsum(keep)])
    references = [
        (table.name, column)
        for table in TABLES.values()
        for column in table.columns
        if table.name in frames and column.unit == f"row of {name}"
    ]
    for table, column in references:
        if column.name not in {"event_begin", "event_end"}:
            owner = frames[table][column.name].fill_null(-1).to_numpy()
            drop_rows(frames, table, (owner < 0) | keep[owner])
        owners = frames[table][column.name]
        new = pl.Series(new_row[owners.fill_null(0).to_numpy()], dtype=column.dtype)
        frames[table] = frames[table].with_columns(
            new.zip_with(owners.is_not_null(), owners).alias(column.name)
        )


def cut_profile(profile: ProfileData, cut: Cut) -> ProfileData | None:
    """Return the run without the data of a cut; None if it has none of it."""
    cuts = {
        host: cut_trace(trace, cut, profile.derived(host, kinds_of_events))
        for host, trace in profile.traces.items()
    }
    traces = {host: cuts[host] or trace for host, trace in profile.traces.items()}
    return ProfileData(profile.run, traces) if any(cuts.values()) else None


def judge_run(profile: ProfileData) -> dict[str, Finding]:
    """Return the findings by rule."""
    return {finding.id: finding for finding in evaluate(signals_of(profile))}


def is_grave(finding: Finding) -> bool:
    """Return whether a finding fails with a warning or worse."""
    return finding.status == "fail" and finding.severity != "info"


def outcome_of(
    rule: str, before: Mapping[str, Finding], after: Mapping[str, Finding]
) -> str:
    """Return one of `OUTCOMES` for a rule that failed before the cut."""
    status = after[rule].status
    if status != "pass":
        given = status if after[rule].unavailable else "false_pass"
        return "still_found" if status == "fail" else given
    lost = (before[rule].share_percent or 0.0) - (after[rule].share_percent or 0.0)
    grown = (
        (finding.share_percent or 0.0)
        - (before[finding.id].share_percent or 0.0) * is_grave(before[finding.id])
        for finding in after.values()
        if is_grave(finding)
    )
    held = max(grown, default=0.0) >= MIN_HELD_ELSEWHERE * lost > 0
    return "elsewhere" if held else "false_pass"


class Scores:
    """Outcomes of cases, and verdicts on uncut recordings."""

    def __init__(self) -> None:
        self.outcomes: dict[str, Counter[str]] = defaultdict(Counter)
        self.needs: dict[str, set[str]] = defaultdict(set)
        self.uncut: list[tuple[frozenset[str], dict[str, Status]]] = []

    def add_recording(self, profile: ProfileData) -> Iterator[str]:
        """Judge a recording with and without each kind of data; yield false passes."""
        before, has = judge_run(profile), set()
        for cut in CUTS:
            if (without := cut_profile(profile, cut)) is None:
                continue
            has.add(cut.name)
            after = judge_run(without)
            for rule in filter(lambda rule: is_grave(before[rule]), before):
                outcome = outcome_of(rule, before, after)
                self.outcomes[rule][outcome] += 1
                if outcome == "cannot_tell":
                    self.needs[rule].add(cut.name)
                if outcome == "false_pass":
                    value = after[rule].value
                    yield f"{rule} without {cut.name}: {before[rule].value} -> {value}"
        statuses = {rule: finding.status for rule, finding in before.items()}
        self.uncut.append((frozenset(has), statuses))

    def table_rows(self) -> Iterator[tuple[str, Counter[str]]]:
        """Yield the counts of each rule, then their sum."""
        yield from sorted(self.outcomes.items())
        yield "all", sum(self.outcomes.values(), Counter())

    def twin_counts(self) -> tuple[int, int]:
        """Return how many uncut twins there are, and on how many a rule cannot tell."""
        statuses = [
            status[rule]
            for has, status in self.uncut
            for rule, needs in self.needs.items()
            if needs <= has and status[rule] != "not_applicable"
        ]
        return len(statuses), statuses.count("cannot_tell")


def print_table(scores: Scores) -> None:
    """Print a row for each rule, and the shares over all."""
    heads = ("rule", "cases", *(name.replace("_", " ") for name in OUTCOMES))
    print("| " + " | ".join(heads) + " |\n|---" + "|--:" * (len(heads) - 1) + "|")
    for rule, counts in scores.table_rows():
        cells = (rule, counts.total(), *(counts[name] for name in OUTCOMES))
        print("| " + " | ".join(map(str, cells)) + " |")
    right = counts["cannot_tell"] + counts["not_applicable"]
    lost, (twins, silent) = right + counts["false_pass"], scores.twin_counts()
    print(f"\n{right} of {lost} cannot tell: {100 * right / max(lost, 1):.1f} %.")
    print(f"Of {twins} uncut twins {silent}: {100 * silent / max(twins, 1):.1f} %.")


def main() -> None:
    """Cut every recording of a folder."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--cases", action="store_true", help="list false passes")
    parser.add_argument("--profiles", type=Path, default=DATA)
    asked, scores = parser.parse_args(), Scores()
    files = (path for kind in RECORDINGS for path in asked.profiles.rglob(kind))
    folders = {path.parent for path in files}
    # A folder around another one holds the same recording as a timeline.
    around = {outer for folder in folders for outer in folder.parents}
    for folder in sorted(folders - around):
        for line in scores.add_recording(open_profile(folder)):
            if asked.cases:
                print(folder.relative_to(asked.profiles), line, flush=True)
    print_table(scores)


if __name__ == "__main__":
    main()
