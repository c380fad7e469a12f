"""How a verdict is explained: every field, of literal signals and a literal path."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, NamedTuple

import polars as pl
import pytest
from tests.support.traces.literal import ABSENT, OTHER, windows_at

from stepscope.advice.checklist import STAGES
from stepscope.advice.explanation import (
    GAIN_FIELD,
    Explanation,
    LeftOut,
    PathShare,
    StepPath,
    explanation,
    step_path,
)
from stepscope.advice.registry import RULES
from stepscope.advice.signals import Signals
from stepscope.derive.facts.evidence import Saving
from stepscope.derive.facts.recording import record_grade
from stepscope.derive.facts.savings.predicted_savings import replay_signals
from stepscope.derive.replay.critical import critical_path
from stepscope.derive.step_windows.windows import windows
from stepscope.errors import BadUsage
from stepscope.frozen import Frozen

MS = 1_000_000_000
RULE = next(rule for rule in RULES if record_grade in rule.reads)
READ = [signal for signal in RULE.reads if signal is not record_grade]


def shares(column: str, times: list[tuple[Any, int]]) -> pl.DataFrame:
    total = sum(time for _, time in times)
    return pl.DataFrame(
        {
            column: [name for name, _ in times],
            "time_ps": [time for _, time in times],
            "percent": [100 * time / total for _, time in times],
        }
    )


#: Two steps of 10 ms; twelve ops, and a thread without a name.
PATH = SimpleNamespace(
    rows=pl.DataFrame({"window": [4, 4, 7]}),
    unexplained_percent=12.5,
    share=lambda column: shares(
        column,
        {
            "owner": [("input", 15 * MS), (None, 5 * MS)],
            "name": [(f"op{at}", (20 - at) * MS) for at in range(12)],
            "track": [(1, 12 * MS), (None, 4 * MS), (0, 4 * MS)],
        }[column],
    ),
)
TRACKS = pl.DataFrame({"name": ["main", "stream"]})


def profile_of(**derived: Any) -> Any:
    """Hosts `a` and `b:c`, of which the second has a path."""
    known: dict[Any, Any] = {
        ("b:c", critical_path): PATH,
        ("b:c", windows): windows_at(
            *((at, at + 1) for at in range(6)),
            open_end=[False, False, False, False, True, True],
            flags=[[], ["other_kind"], [], ["warm_up"], ["other_kind"], []],
        ),
        **derived.pop("known", {}),
    }
    return SimpleNamespace(
        run="run",
        hosts=("a", "b:c"),
        derived=lambda host, what: known.get((host, what), OTHER),
        table=lambda *_: derived.get("tracks", TRACKS),
    )


def test_every_field_of_the_critical_path() -> None:
    found = step_path(profile_of(), "b:c")
    total = sum(20 - at for at in range(12))
    assert found == StepPath(
        host="b:c",
        steps=2,
        unexplained_percent=12.5,
        owners=(
            PathShare(name="input", ms=7.5, percent=75.0),
            PathShare(name=None, ms=2.5, percent=25.0),
        ),
        ops=tuple(
            PathShare(name=f"op{at}", ms=(20 - at) / 2, percent=100 * (20 - at) / total)
            for at in range(10)
        ),
        threads=(
            PathShare(name="stream", ms=6.0, percent=60.0),
            PathShare(name="main", ms=2.0, percent=20.0),
        ),
    )
    assert step_path(profile_of(), "a") == OTHER
    assert step_path(profile_of(tracks=ABSENT), "b:c") == ABSENT


def explained(
    signals: dict[Any, Any], profile: Any = None, **fields: Any
) -> Explanation:
    finding = RULE.item.finding("fail", devices=("b:c:1", "a:0", "a:1"), **fields)
    replays = SimpleNamespace(reason=lambda label: OTHER if label else None)
    known = {record_grade: 0.5, replay_signals: replays, **signals}
    others = [rule.item.finding("pass") for rule in RULES if rule is not RULE]
    return explanation(
        profile_of() if profile is None else profile,
        RULE.item.id,
        [*others[:3], finding],
        Signals(lambda signal: known.get(signal, ABSENT)),
    )


def numbers_of(value: Any) -> dict[str, Any]:
    found = explained({record_grade: value})
    (signal,) = (one for one in found.signals if one.name == "record_grade")
    assert signal.unavailable is None
    assert signal.more == 0
    return signal.numbers


def test_an_explanation_has_the_path_of_the_findings_first_device() -> None:
    saving = Saving(low=1.0, high=2.0)
    found = explained({}, saving_ms=saving, owners=("sync",))
    assert (found.run, found.stage) == ("run", STAGES[RULE.item.stage])
    assert found.about == RULE.item.about
    assert found.finding.saving_ms == saving
    assert found.critical_path is not None
    assert found.critical_path.host == "b:c"
    assert [missing.field for missing in found.missing] == [GAIN_FIELD]
    assert [signal.name for signal in found.signals] == [one.name for one in RULE.reads]
    absent = {one.name: one.unavailable for one in found.signals}
    assert absent == {
        **dict.fromkeys((one.name for one in READ), ABSENT),
        "record_grade": None,
    }
    # Without a path its reason is given; without a gain there is nothing to doubt.
    silent = profile_of(known={("b:c", critical_path): ABSENT})
    found = explained({}, silent)
    assert found.critical_path is None
    assert [missing.field for missing in found.missing] == ["critical_path"]


@pytest.mark.parametrize(
    ("devices", "host"),
    [
        (("b:c",), "b:c"),
        (("a:0",), None),
        (("unknown:0",), None),
        ((), None),
    ],
)
def test_the_host_is_that_of_the_first_device_or_the_first(
    devices: tuple[str, ...], host: str | None
) -> None:
    finding = RULE.item.finding("fail", devices=devices)
    found = explanation(
        profile_of(), RULE.item.id, [finding], Signals(lambda _: ABSENT)
    )
    assert (found.critical_path and found.critical_path.host) == host


def test_a_rule_that_does_not_exist_is_not_explained() -> None:
    with pytest.raises(BadUsage, match=r"no\.rule"):
        explanation(profile_of(), "no.rule", [], Signals(lambda _: ABSENT))


def test_windows_that_are_left_out_are_counted_by_flag() -> None:
    """Of six windows two are not complete, and of the others two have a flag."""
    found = explained({}).left_out
    assert found == LeftOut(
        windows=6,
        judged=2,
        open_end=2,
        flags={"other_kind": 2, "warm_up": 1},
        devices=("a:0", "a:1"),
    )


class Pair(NamedTuple):
    """Two named numbers."""

    first: int
    second: float | None


class Nested(Frozen, frozen=True):
    """A value with parts of every kind."""

    flag: bool
    text: str
    times_ps: tuple[int, ...]
    counts: list[int]
    pairs: tuple[Pair, ...]
    why: Any
    table: pl.DataFrame
    by_name: dict[Any, Any]
    zeros: tuple[int, ...] = (0, 0, 0, 0, 0)


def test_the_numbers_of_a_signal_are_named_by_their_place() -> None:
    value = Nested(
        flag=True,
        text="word",
        times_ps=(1, 2, 3, 4, 5),
        counts=[3, 9, 1, 4, 5],
        pairs=tuple(Pair(at, None) for at in range(6)),
        why=OTHER,
        table=pl.DataFrame({"x": range(9)}),
        by_name={
            "a": {"_ps": {"b": (1, 1, 1, 1, 2)}},
            7: 7,
            "n": None,
            "d": {"e": None},
        },
    )
    assert numbers_of(value) == {
        "flag": True,
        "text": "word",
        "times_ps (sum of 5)": 15,
        "counts (smallest of 5)": 1,
        "counts (largest of 5)": 9,
        **{f"pairs[{at}].first": at for at in range(4)},
        "pairs.count": 6,
        "why": f"not known: {OTHER.reason}",
        **{f"table[{at}].x": at for at in range(4)},
        "by_name.a._ps.b (sum of 5)": 6,
    }


@pytest.mark.parametrize(
    ("value", "numbers"),
    [
        (0.5, {"value": 0.5}),
        (None, {"value": None}),
        ({"a": None}, {"a": None}),
        ((1, 2, 3, 4), {f"[{at}]": at + 1 for at in range(4)}),
        ({"a": {"b": {"c": {"d": 1}}}}, {"a.b.c.d": 1}),
        ({"a": {"b": {"c": {"d": {"e": 1}}}}}, {"a.b.c.d.e": 1}),
        ({"a": {"b": {"c": {"d": {"e": {"f": 1}}}}}}, {}),
        ((), {}),
        (
            ("a", "b", "c", "d", "e"),
            {**{f"[{at}]": "abcd"[at] for at in range(4)}, ".count": 5},
        ),
    ],
)
def test_nested_numbers_have_names_with_dots(
    value: Any, numbers: dict[str, Any]
) -> None:
    assert numbers_of(value) == numbers


@pytest.mark.parametrize(("count", "more"), [(40, 0), (43, 3)])
def test_at_most_forty_numbers_are_listed(count: int, more: int) -> None:
    value = {f"n{at}": at for at in range(count)}
    found = explained({record_grade: value})
    (signal,) = (one for one in found.signals if one.name == "record_grade")
    assert (len(signal.numbers), signal.more) == (40, more)
    assert signal.numbers["n39"] == 39
