"""`allreduce.pack` on whole traces."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.traces import blueprint
from tests.support.traces.training import (
    PACK,
    findings,
    on_host,
    parallel,
    together,
)

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
