"""The report that a person reads first: a verdict that fits on a screen."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest
from tests.support.results.pages import document_of, host_loop
from tests.support.traces import blueprint
from tests.support.traces.training import KERNELS, MATMUL, SGEMM, together

from stepscope.cli.output import Progress
from stepscope.reporting.compose import compose_report
from stepscope.reporting.outline import as_text
from stepscope.reporting.outline.report import SHORT_SECTIONS, report_outline
from stepscope.reporting.page import plain_text
from stepscope.session import open_profile

if TYPE_CHECKING:
    from stepscope.reporting.document import Document

DATA = Path(__file__).resolve().parents[2] / "data"
#: Recordings with the longest short reports: of devices, of a loader, of Nsight.
LONG = (
    *("gpu/torch_memory", "gpu/jax_input_bound", "gpu/tiers/timeline.sqlite.gz"),
    "gpu/planted_kernels/kernels.csv.gz",
)
MAX_LINES = 40


def short_page(document: Document) -> str:
    outline = report_outline(document, sections=SHORT_SECTIONS)
    return plain_text(as_text.render(outline, width=100))


@pytest.mark.parametrize("name", LONG)
def test_a_short_report_fits_on_a_screen(name: str) -> None:
    document = compose_report(open_profile(DATA / name), Progress(stages=9))
    text = short_page(document)
    assert len(text.splitlines()) <= MAX_LINES
    assert document.headline.text in " ".join(text.split())
    assert text.rstrip().endswith("more: stepscope report PATH --full")


def test_it_has_the_verdict_the_bars_and_what_could_not_be_seen() -> None:
    text = short_page(document_of(blueprint.trace(host_loop())))
    lines = text.splitlines()
    assert lines[3].startswith("Input-bound: ")
    assert lines[4].startswith("Do first (input.bound): ")
    headings = [line for line in lines[5:] if re.match("Wh", line)]
    assert headings == ["Where the step time went", "What could not be seen"]
    # Two thirds of the step are ops, the largest of which is named below their bar.
    (bar,) = (at for at, line in enumerate(lines) if line.startswith("  Host compute"))
    assert lines[bar + 1].split() == ["a/MatMul", "66.1", "%"]


def test_of_a_program_without_a_device_nothing_is_said_of_devices() -> None:
    text = short_page(document_of(blueprint.trace(host_loop())))
    assert text.splitlines()[1] == "host vm · CPU only"
    assert not re.findall("(?i)device|gpu|cuda|cupti", text)


def test_a_change_is_shown_as_code_below_its_finding() -> None:
    kernels = [(SGEMM, 300.0, MATMUL)] * 20 + list(KERNELS[20:])
    trace = blueprint.trace(together(kernels=kernels), devices={0: blueprint.A100})
    lines = short_page(document_of(trace)).splitlines()
    (code,) = (at for at, line in enumerate(lines) if "mixed_precision" in line)
    assert lines[code].startswith("      tf.keras.")
    assert lines[code - 3].startswith("Do first (amp.share): Switch the model")


def test_what_was_not_recorded_is_one_line_and_checks_are_counted_once() -> None:
    document = compose_report(open_profile(DATA / LONG[0]), Progress(stages=9))
    lines = short_page(document).splitlines()
    unseen = lines[lines.index("What could not be seen") + 1 :]
    assert unseen[0] == "  Not recorded: Input."
    assert unseen[1].startswith("  14 checks without a verdict: env.libs, ")
    assert sum("checks" in line for line in lines) == 1


def test_a_section_without_anything_unknown_is_left_out() -> None:
    document = document_of(blueprint.trace(host_loop()))
    whole = msgspec.structs.replace(document, findings=(), quality=())
    lines = short_page(whole).splitlines()
    assert "What could not be seen" not in lines
    assert lines[-2:] == ["  more: stepscope report PATH --full", ""]
