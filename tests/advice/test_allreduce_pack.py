"""`allreduce.pack` on whole traces, and over literal kernels."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import polars as pl
import pytest
from tests.advice.kernels import (
    EXCHANGE,
    MS,
    RULE,
    facts_of,
    judged,
    kernel,
    signals,
    worked,
)
from tests.support.traces import blueprint
from tests.support.traces.training import (
    PACK,
    findings,
    on_host,
    parallel,
    together,
)

from stepscope.derive.facts.devices.all_reduces import (
    AllReduceSignals,
    CommunicationSignals,
    exchange_signals,
)
from stepscope.derive.facts.evidence import Part
from stepscope.derive.facts.savings.what_if_changes import Faster
from stepscope.units import MIB

DEVICES = dict.fromkeys(range(4), blueprint.A100)


def found_in(lines: list[Any], **given: Any) -> Any:
    return findings(lines, devices=DEVICES, **given)["allreduce.pack"]


def test_packing_around_the_exchange_is_found() -> None:
    finding = found_in(parallel(pack_us=250.0))
    # Before and after: 0.5 of 7.09 ms.
    assert (finding.status, finding.severity) == ("fail", "warn")
    assert finding.ms_per_step == pytest.approx(0.5, abs=0.001)
    assert finding.share_percent == pytest.approx(100 * 500 / 7_090, abs=0.1)
    assert {part.name for part in finding.parts} == {
        "replica/ConcatV2",
        "replica/Split",
    }
    assert finding.saving_ms.high == pytest.approx(0.7 * 0.5, abs=0.001)
    assert finding.evidence[0].ops in {("concat_fixed",), ("split",)}


def test_without_packing_there_is_none() -> None:
    finding = found_in(parallel())
    assert (finding.status, finding.value) == ("pass", 0.0)


def test_a_concatenation_of_the_model_is_none() -> None:
    # The first of the ten kernels of each step: ten activities before the exchange.
    lines = parallel()
    computing = [at for at, line in enumerate(lines) if line[1].startswith("ampere")]
    for at in computing[::10]:
        track, _, start, dur, stats = lines[at]
        lines[at] = (track, "concat_fixed", start, dur, {**stats, "tf_op": PACK})
    finding = found_in(lines)
    assert (finding.status, finding.value) == ("pass", 0.0)


@pytest.mark.parametrize("lines", [together(), on_host()], ids=["one", "none"])
def test_without_exchanges_it_does_not_apply(lines: list[Any]) -> None:
    assert findings(lines)["allreduce.pack"].status == "not_applicable"


def test_without_sizes_it_cannot_tell() -> None:
    lines = [
        (*line[:4], {**line[4], "dtype": "?"}) if "nccl" in line[1] else line
        for line in parallel(pack_us=250.0)
    ]
    found = findings(lines, devices=DEVICES)
    # No rule about all-reduces claims to know how large they are.
    for rule in ("allreduce.pack", "allreduce.count", "allreduce.time"):
        assert found[rule].status == "cannot_tell", rule
        assert found[rule].unavailable.code == "NO_SHAPES"
    exposed = found["comm.exposed"].share_percent
    assert f"for {exposed:.1f} % of the time" in found[rule].unavailable.reason


@pytest.mark.parametrize("table", ["device_activity", "stats"])
def test_without_a_table_it_cannot_tell(table: str) -> None:
    finding = found_in(parallel(pack_us=250.0), without=table)
    assert finding.status == "cannot_tell"
    assert finding.unavailable.remedy


# --- over literal kernels ---


def shown_of(*kinds: int) -> pl.DataFrame:
    """Activities one after the other, each as long as its kernel of `packed`."""
    ms = {0: 0.25, 1: 1.0, 2: 2.0, 3: 0.5}
    ends = list(accumulate(round(ms[kind] * MS) for kind in kinds))
    return pl.DataFrame(
        {
            "class": kinds,
            "stream": [7] * len(kinds),
            "start_ps": [0, *ends[:-1]],
            "end_ps": ends,
            "event": range(len(kinds)),
        },
        schema_overrides=dict.fromkeys(("class", "stream", "event"), pl.Int32),
    )


def packed(signals_of: Any, shares: Any, *kinds: int) -> Any:
    """Kernels 0 and 3 pack, 1 exchanges and 2 multiplies, in this order."""
    work = worked(
        kernel(0.25, full_name="cat", op="a/concat", op_type="ConcatV2"),
        kernel(1.0, **EXCHANGE),
        kernel(2.0),
        kernel(0.5, full_name="SplitKernel", kernel="split", op=None, op_type=None),
        shown=shown_of(*kinds),
    )
    reduces = AllReduceSignals(
        label="vm:0",
        kinds=frozenset({"all-reduce"}),
        step_source="marker",
        step_confidence=0.8,
        window_ps=(20 * MS,) * 3,
        exposed_ps=(MS,) * 3,
        count=2.0,
        small=1.0,
        bytes=3.0 * MIB,
        least_ps=1.0,
        expected_ps=None,
        workers=2,
        gb_per_s=None,
        rate_source=None,
        calls=pl.DataFrame(),
    )
    extra = {exchange_signals: reduces}
    exchanged = CommunicationSignals({"vm:0": 9}, {}, {})
    account = shares(step_ms=20.0)
    return signals(signals_of, work, account, extra=extra, exchanged=exchanged)


@pytest.mark.parametrize(
    ("kinds", "classes", "ms"),
    [
        # The last of five after an exchange, and the first of five before one.
        ((1, 2, 2, 2, 2, 0), {0}, 0.25),
        ((1, 2, 2, 2, 2, 2, 0), set(), 0.0),
        ((3, 2, 2, 2, 2, 1), {3}, 0.5),
        ((3, 2, 2, 2, 2, 2, 1), set(), 0.0),
        ((3, 0, 1, 0, 3), {0, 3}, 1.5),
        # Between two exchanges the nearer one counts.
        ((1, 2, 2, 2, 2, 2, 2, 0, 2, 1), {0}, 0.25),
        ((1, 0, 2, 2, 2, 2, 2, 2, 3, 2, 2, 2, 2, 2, 1), {0}, 0.25),
        ((0, 2, 3), set(), 0.0),
    ],
)
def test_kernels_that_pack_near_an_exchange_are_counted(
    signals_of: Any, shares: Any, *, kinds: Any, classes: set[int], ms: float
) -> None:
    seen = packed(signals_of, shares, *kinds)
    (change,) = RULE["allreduce.pack"].changes(seen)
    assert isinstance(change, Faster)
    assert set(change.classes) == classes
    assert list(change.left) == pytest.approx([0.65, 0.3])
    found = judged("allreduce.pack", seen)
    assert found.ms_per_step == pytest.approx(ms)
    assert facts_of(found) == {
        "kernels": sum(kinds.count(kind) for kind in classes),
        "exchanges": 2.0,
        "mebibytes": 3.0,
        "effect": pytest.approx(1000 * ms),
        "smallest_effect": 100.0,
    }


def test_every_number_of_packing(signals_of: Any, shares: Any) -> None:
    """1.5 of 20 ms: of the op 0.5, and of a kernel without an op 1."""
    found = judged("allreduce.pack", packed(signals_of, shares, 3, 0, 1, 0, 3))
    assert (found.status, found.devices) == ("fail", ("vm:0",))
    assert found.share_percent == pytest.approx(7.5)
    assert found.confidence == pytest.approx(0.8)
    assert found.parts == (
        Part(name="split", share_percent=5.0),
        Part(name="a/concat", share_percent=2.5),
    )
    assert found.saving_ms is not None
    assert found.saving_ms.high == pytest.approx(0.7 * 1.5)
    assert found.saving_ms.low == pytest.approx(0.7 * 1.5 / 2)
    assert (found.steps_hit, found.steps_clean) == (12, 12)
