"""What is said first of real profiles, against what a second reader found in them.

The numbers were counted in the raw files by hand; the first sentence must mean what an
engineer who read the trace would say.
"""

from __future__ import annotations

import json
import re
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from stepscope.advice.headline import findings_by_cost
from stepscope.cli.output import Progress
from stepscope.reporting import to_json
from stepscope.reporting.compose import compose_report
from stepscope.reporting.outline import as_text
from stepscope.reporting.outline.report import report_outline
from stepscope.reporting.page import plain_text
from stepscope.session import open_profile

if TYPE_CHECKING:
    from pathlib import Path

    from stepscope.reporting.document import Document


class Truth(NamedTuple):
    """What must be said of one profile.

    Attributes:
        profile: Its path.
        first: Expression that the first sentence holds.
        finding: Id of the finding that it is about; None for none.
        owner: Owner of its time; None where it is no share of the account.
        percent: Its share, from the raw file, and how far ours may be off.
        second: Id of the finding that comes second; None where nothing must.
    """

    profile: str
    first: str
    finding: str | None
    owner: str | None = None
    percent: tuple[float, float] | None = None
    second: str | None = None


TRUTHS = (
    Truth(
        "kineto/hta_nccl_parser_config",
        "host cannot feed the device",
        "launch.delay",
        "launch",
        (76.7, 2),
    ),
    Truth(
        "kineto/hta_negative_queue_length",
        "Queued work was not recorded",
        "capture.quality",
        "queued",
        (63.8, 1),
    ),
    # 18.0 % of the first five steps, 18.6 % of all six between their marks.
    Truth(
        "kineto/hta_trace_diff_control",
        "Communication is exposed",
        "comm.exposed",
        "collective",
        (18.6, 0.3),
        second="launch.delay",
    ),
    Truth("kineto/hta_trace_diff_test", "16 bit", "amp.share"),
    Truth(
        "kineto/param_resnet",
        r"Input-bound, in bursts: 1[34] of (28|29) steps wait",
        "input.bound",
        "input",
        (53, 2),
        second="amp.share",
    ),
    Truth("kineto/tracelens_b200_eager", "host cannot feed", "launch.delay", "launch"),
    Truth(
        "kineto/tracelens_timesformer_h100",
        r"on the host.*`preprocess` \(\w+\.py:\d+\)",
        "host.work",
        "host_compute",
        (57, 2),
    ),
    Truth(
        "kineto/tracelens_timesformer_mi300",
        r"on the host.*`preprocess` \(\w+\.py:\d+\)",
        "host.work",
        "host_compute",
        (68, 2),
    ),
    Truth(
        "gpu_tf/aoberai_2021_06_16_01_44_30",
        "16 bit",
        "amp.share",
        second="launch.delay",
    ),
    Truth(
        "gpu_tf/aoberai_2021_06_16_15_50_11",
        "host cannot feed the device",
        "launch.delay",
        "launch",
    ),
    Truth(
        # One batch: what its callback does as the recording ends is not the step.
        "gpu_tf/mholmeslinder_2020_12_22_03_43_06",
        "Copies of the batch delay the step",
        "input.bound",
        "copy_in",
        second="amp.share",
    ),
    Truth(
        "gpu_tf/mholmeslinder_2020_12_22_04_37_44",
        "Copies of the batch delay the step",
        "input.bound",
        "copy_in",
    ),
    Truth(
        "gpu_jax_amd/jax08_attention",
        "unexplained",
        "capture.quality",
        "unexplained",
        (51.1, 2),
        second="launch.delay",
    ),
    Truth(
        "gpu_jax_amd/jax08_elementwise",
        "host cannot feed the device",
        "launch.delay",
        "launch",
        (50.6, 10),
    ),
    Truth(
        "gpu_jax_amd/jax_conv_minimal",
        "Most of the devices' records are missing",
        "capture.quality",
    ),
    Truth("gpu_jax_amd/jax_te_fused_attn", "Compute-bound", None, "busy", (94, 4)),
    Truth("gpu_tf/t4_healthy", "16 bit", "amp.share", second="input.bound"),
    # A loader in the main process: more workers removed it (720 to 183 ms a step).
    Truth(
        "nsys_ladder/baseline.sqlite.gz",
        "Input-bound .or other work before the batch.: the device waits 7[89]",
        "input.bound",
        percent=(78.5, 1),
    ),
    # Three stalls of the loader, 118 to 404 ms; copies of 23 to 38 ms in every step.
    Truth(
        "nsys_ladder/8workers.sqlite.gz",
        "Input-bound, in bursts: 10 of 29 steps wait",
        "input.bound",
        percent=(24.6, 1),
        second="amp.share",
    ),
    Truth("nsys_ladder/dali_amp.sqlite.gz", "Copies of the batch", "input.bound"),
    # Their device clocks are late or early; put right, the devices are busy for 96 % of
    # the step, 60 % of which are products in TF32 and 32 bit: 16 bit gains most.
    *(
        Truth(f"nsys_ladder/4gpu_{name}.sqlite.gz", "and 2[0-4].* in TF32", "amp.share")
        for name in ("baseline", "bucketcap100mb", "nobroadcast")
    ),
)
every_truth = pytest.mark.parametrize("truth", TRUTHS, ids=lambda one: one.profile)
pytestmark = pytest.mark.profiles


@cache
def read(path: Path) -> Document:
    return compose_report(open_profile(path), Progress(stages=9))


@every_truth
def test_the_first_sentence_is_the_engineers(truth: Truth, shared_profile: Any) -> None:
    document = read(shared_profile(truth.profile))
    said = document.headline
    assert re.search(truth.first, said.text), said.text
    assert (said.finding, said.owner) == (truth.finding, truth.owner or said.owner)
    if truth.percent is not None:
        counted, off = truth.percent
        assert said.percent == pytest.approx(counted, abs=off)


@every_truth
def test_text_and_json_begin_with_it(truth: Truth, shared_profile: Any) -> None:
    document = read(shared_profile(truth.profile))
    head = plain_text(as_text.render(report_outline(document), width=100)).split("\n\n")
    # Errors of the recording stand above it.
    (said, *_) = (" ".join(it.split()) for it in head[1:] if not it.startswith("!"))
    assert said.startswith(document.headline.text)
    written = json.loads(to_json.render_document(document))
    assert list(written)[:2] == ["schema", "headline"]
    assert written["headline"]["text"] == document.headline.text
    assert set(written["headline"]) == {"text", "owner", "percent", "finding"}


@every_truth
def test_what_comes_second_is_said_second(truth: Truth, shared_profile: Any) -> None:
    document = read(shared_profile(truth.profile))
    others = [
        one.id for one in findings_by_cost(document.findings) if one.id != truth.finding
    ]
    if truth.second is not None:
        assert others[0] == truth.second


@pytest.mark.parametrize(
    ("profile", "wrong"),
    [
        # Queued work that was not recorded is no want of launches.
        ("kineto/hta_negative_queue_length", "launch.delay"),
        # All that matters is in bfloat16.
        ("gpu_jax_amd/jax_te_fused_attn", "amp.share"),
        # A serving library's one prefill has no gaps between steps.
        ("kineto/tracelens_b200_eager", "gaps.between"),
        ("gpu_tf/t4_healthy", "launch.delay"),
    ],
)
def test_what_is_no_fault_is_not_called_one(
    profile: str, wrong: str, shared_profile: Any
) -> None:
    document = read(shared_profile(profile))
    assert wrong not in {one.id for one in findings_by_cost(document.findings)}


def test_what_the_loader_gains_holds_what_eight_workers_measured(
    shared_profile: Any,
) -> None:
    """Without stalls a step takes 176.7 ms with eight workers (median, by hand)."""
    document = read(shared_profile("nsys_ladder/baseline.sqlite.gz"))
    (found,) = (one for one in document.findings if one.id == "input.bound")
    mean_ms = 100 * found.ms_per_step / found.share_percent
    assert found.saving_ms.low <= mean_ms - 176.7 <= found.saving_ms.high
    # What is left without the mean wait is near to the median that was measured.
    copies = 22.6
    assert mean_ms - found.ms_per_step + copies == pytest.approx(176.7, rel=0.05)
    # The recording does not say how many cores there are.
    first = found.predictions[0]
    assert first.parameter.value == 8
    assert first.step_ms.mid == pytest.approx(176.7, rel=0.05)
    assert first.step_ms.low < 176.7 < first.step_ms.high
    # With the stalls it takes 211.7 ms.
    assert first.step_ms.mid < 211.7 < first.step_ms.high


def test_workers_uncover_other_stalls_of_a_recorded_program(
    shared_profile: Any,
) -> None:
    """With four workers six steps took 838 ms (MANIFEST.md)."""
    document = read(shared_profile("kineto/resnet50_num_workers_0"))
    (found,) = (one for one in document.findings if one.id == "input.bound")
    first = found.predictions[0].step_ms
    assert first.mid < 838 / 6 < first.high < found.mean_step_ms


def test_mixed_precision_made_the_step_as_short_as_predicted(
    shared_profile: Any,
) -> None:
    """With float16 a step takes 137.4 ms (median, by hand): copies become exposed."""
    document = read(shared_profile("nsys_ladder/dali.sqlite.gz"))
    (found,) = (one for one in document.findings if one.id == "amp.share")
    assert found.predictions
    for one in found.predictions:
        assert one.step_ms.mid == pytest.approx(137.4, rel=0.05)
        assert one.step_ms.low < 137.4 < one.step_ms.high


@pytest.mark.parametrize(
    "profile", ["4gpu_baseline", "4gpu_nobroadcast", "4gpu_bucketcap100mb"]
)
def test_buckets_and_broadcasts_of_a_busy_device_promise_little(
    profile: str, shared_profile: Any
) -> None:
    """Bigger buckets gained 1.1 % and no broadcasts 1.8 %, as measured."""
    document = read(shared_profile(f"nsys_ladder/{profile}.sqlite.gz"))
    exchanging = [one for one in document.findings if one.id.startswith("allreduce")]
    exchanging += [one for one in document.findings if one.id == "comm.exposed"]
    assert exchanging
    assert not [one for one in exchanging if one.status == "fail"]
    # Their sizes were not recorded; what they could gain at most is said.
    (count,) = (one for one in exchanging if one.id == "allreduce.count")
    assert count.unavailable is not None
    said = re.search(r"for (\d\.\d) % of the time", count.unavailable.reason)
    assert said is not None
    assert float(said[1]) < 5
    assert not [one for one in document.findings if one.note == "queued"]


def test_batches_are_not_advised_to_a_loader_with_workers(shared_profile: Any) -> None:
    document = read(shared_profile("kineto/param_resnet"))
    (found,) = (one for one in document.findings if one.id == "input.bound")
    advised = " ".join(f"{one.text} {one.code}" for one in found.actions)
    assert "num_workers" not in advised
    assert "pin_memory" in advised
