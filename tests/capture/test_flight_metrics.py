"""Step gauges: read by Prometheus's own parser, held against hand-made steps."""

from __future__ import annotations

import ctypes
import re
import time
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

import stepscope as ss
from stepscope.capture.flight.gauges import CONTENT_TYPE, Gauges
from stepscope.capture.flight.nvml import DeviceUse, Nvml
from stepscope.capture.flight.watch import Step
from stepscope.errors import BadUsage

if TYPE_CHECKING:
    from pathlib import Path

S = 1_000_000_000
PATIENCE_S = 60

Key = tuple[str, tuple[tuple[str, str], ...]]


def read(text: str) -> dict[Key, float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def hand_made() -> Gauges:
    gauges = Gauges()
    steps = [Step(n, "train", n * S, n * S + S // 2, 1) for n in range(3)]
    steps.append(Step(0, 'te"st\n\\', 3 * S, 5 * S, 1))
    gauges.add_steps(
        steps,
        {"train": S // 2},
        {"load": 3 * S, "": S},
        None,
        slow=1,
        wall_s=1000.5,
    )
    return gauges


def test_the_text_is_what_steps_were() -> None:
    devices = [DeviceUse("H100", 0.75, 2**30, 2**36)]
    text = hand_made().metrics_text(
        written=["hang", "slow step", "hang"], listening=True, devices=devices
    )
    found = read(text)
    train = (("loop", "train"),)
    other = (("loop", 'te"st\n\\'),)
    device = (("device", "0"), ("name", "H100"))
    assert {key: it for key, it in found.items() if not key[0].startswith("proc")} == {
        ("stepscope_step_seconds_count", train): 3,
        ("stepscope_step_seconds_sum", train): 1.5,
        ("stepscope_step_seconds_count", other): 1,
        ("stepscope_step_seconds_sum", other): 2,
        ("stepscope_step_median_seconds", train): 0.5,
        ("stepscope_step_part_ratio", (("part", "load"),)): 0.75,
        ("stepscope_step_part_ratio", (("part", "no annotation"),)): 0.25,
        ("stepscope_slow_steps_total", ()): 1,
        ("stepscope_last_step_timestamp_seconds", ()): 1000.5,
        ("stepscope_listening", ()): 1,
        ("stepscope_profiles_written_total", (("why", "hang"),)): 2,
        ("stepscope_profiles_written_total", (("why", "slow step"),)): 1,
        ("stepscope_device_busy_ratio", device): 0.75,
        ("stepscope_device_memory_used_bytes", device): 2**30,
        ("stepscope_device_memory_bytes", device): 2**36,
    }


def test_what_is_not_known_is_left_out() -> None:
    found = read(Gauges().metrics_text(written=(), listening=False, devices=()))
    names = {name for name, _ in found if name.startswith("stepscope")}
    assert names == {"stepscope_slow_steps_total", "stepscope_listening"}


def test_many_annotations_are_some_shares_that_add_up() -> None:
    gauges = Gauges()
    parts = {f"part {n}": n * S for n in range(1, 40)}
    gauges.add_steps([Step(0, "train", 0, S, 1)], {}, parts, None, slow=0, wall_s=0)
    found = read(gauges.metrics_text(written=(), listening=True, devices=()))
    shares = {
        key[1][0][1]: it
        for key, it in found.items()
        if key[0] == "stepscope_step_part_ratio"
    }
    assert len(shares) == 17
    assert sum(shares.values()) == pytest.approx(1)
    assert shares["part 39"] == pytest.approx(39 / sum(range(1, 40)))


@pytest.mark.slow
def test_prometheus_finds_them_in_the_training_process(tmp_path: Path) -> None:
    with ss.flight_recorder(tmp_path, slower_than=1000, metrics=0) as recorder:
        assert recorder.metrics_address is not None
        assert recorder.metrics_address.startswith("127.0.0.1:")
        url = f"http://{recorder.metrics_address}/metrics"
        for step in range(7):
            with ss.StepTrace(step):
                # What an annotation holds counts with it.
                with ss.Trace("next_batch"), ss.Trace("read"):
                    time.sleep(0.004)
                time.sleep(0.001)
        counted = ("stepscope_step_seconds_count", (("loop", "train"),))
        until_s = time.monotonic() + PATIENCE_S
        found: dict[Key, float] = {}
        while found.get(counted) != 7 and time.monotonic() < until_s:
            with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
                assert answer.headers["Content-Type"] == CONTENT_TYPE
                found = read(answer.read().decode())
            time.sleep(0.05)
        assert found[counted] == 7
        assert found[("stepscope_step_seconds_sum", (("loop", "train"),))] >= 0.007
        assert found[("process_resident_memory_bytes", ())] > 10**6
        assert 0.5 < found[("stepscope_step_input_ratio", ())] < 1
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(f"{url}/more", timeout=PATIENCE_S)  # noqa: S310 - http
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(url, timeout=PATIENCE_S)


@pytest.mark.slow(seconds=0.5)
def test_a_place_that_cannot_be_is_refused_and_nothing_begins(tmp_path: Path) -> None:
    for wrong in ("here", "host:", 70_000):
        with pytest.raises(BadUsage, match=re.escape(f"metrics={wrong!r}")):
            ss.flight_recorder(tmp_path, metrics=wrong)
    with ss.flight_recorder(tmp_path, metrics=0):
        pass


class Driver:
    """The driver's library with two devices, of which the second does not answer."""

    def nvmlInit_v2(self) -> int:  # noqa: N802 - the driver's name
        return 0

    def nvmlDeviceGetCount_v2(self, count: Any) -> int:  # noqa: N802 - the driver's name
        count._obj.value = 2
        return 0

    def nvmlDeviceGetHandleByIndex_v2(self, number: int, found: Any) -> int:  # noqa: N802
        found._obj.value = number + 1
        return 0

    def nvmlDeviceGetUtilizationRates(self, handle: Any, found: Any) -> int:  # noqa: N802
        found._obj.gpu = 40
        return 0 if handle.value == 1 else 15

    def nvmlDeviceGetMemoryInfo(self, _handle: Any, found: Any) -> int:  # noqa: N802
        found._obj.used, found._obj.total = 3, 8
        return 0

    def nvmlDeviceGetName(self, _handle: Any, found: Any, size: int) -> int:  # noqa: N802
        assert size == ctypes.sizeof(found)
        found.value = b"H100"
        return 0


def test_devices_are_those_that_the_driver_answers_for() -> None:
    assert Nvml(Driver()).device_uses() == [DeviceUse("H100", 0.4, 3, 8)]
