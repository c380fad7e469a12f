"""The last section: what might change the diagnosis, each remedy once, and the rest."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest
from tests.support.results.pages import document_of, host_loop, page
from tests.support.traces import blueprint

import stepscope as ss
from stepscope.advice.finding import Finding
from stepscope.cli.output import Progress
from stepscope.reporting.compose import compose_report
from stepscope.reporting.outline import as_text
from stepscope.reporting.outline.findings import doubt_parts
from stepscope.reporting.page import plain_text
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from stepscope.reporting.document import Document

DATA = Path(__file__).parents[2] / "data"
#: What only a device has, or a pipeline of TensorFlow or PyTorch.
OF_DEVICES = re.compile(r"(?i)device|kernel|nsight compute|cupti|matrix")


def points_of(document: Document) -> tuple[list[str], str]:
    """The points of the section, and what it says of those that it leaves out."""
    lines = as_text.render(tuple(doubt_parts(document)), width=100)
    text = " ".join(plain_text(lines).split())
    points, _, rest = text.partition("Not listed here: ")
    return [one.strip() for one in points.split("•")[1:]], rest


def composed(item: str) -> Document:
    return compose_report(ss.open(DATA / item), Progress(stages=9))


# Slow: a whole report of each recording.
@pytest.mark.slow
@pytest.mark.parametrize(
    "item", ["jax_cpu/steps", "jax_cpu/nosteps", "torch_train", "tf_custom_loop"]
)
def test_a_program_on_the_cpu_is_not_told_of_devices(item: str) -> None:
    points, _ = points_of(composed(item))
    assert len(points) <= 4
    assert not [one for one in points if OF_DEVICES.search(one)]


# Slow: a whole report of each recording.
@pytest.mark.slow
@pytest.mark.parametrize("item", ["jax_cpu/steps", "gpu/torch_overlap", "nsight_cpu"])
def test_every_check_that_could_not_tell_is_named_or_counted(item: str) -> None:
    document = composed(item)
    unsure = [one.id for one in document.findings if one.status == "cannot_tell"]
    points, rest = points_of(document)
    counted = re.match(r"(\d+) checks? without", rest)
    named = 0
    for point in points:
        names = point.rpartition("(")[2].rstrip(")")
        more = re.search(r" and (\d+) more$", names)
        listed = re.split(r", | and ", names[: more.start()] if more else names)
        named += len(set(listed) & set(unsure)) + (int(more[1]) if more else 0)
    assert named + (int(counted[1]) if counted else 0) == len(unsure)


def unsure(name: str, reason: str, remedy: str) -> Finding:
    why = Unavailable(code="NOT_RECORDED", reason=reason, remedy=remedy)
    return Finding(id=name, title="", stage=2, status="cannot_tell", unavailable=why)


def test_one_remedy_stands_once_with_all_that_it_would_decide() -> None:
    document = msgspec.structs.replace(
        document_of(blueprint.trace(host_loop())),
        quality=(),
        findings=(
            unsure("a.one", "One is unknown.", "Record it."),
            unsure("b.two", "Two is unknown.", "Look at it."),
            *(unsure(f"c.{at}", f"{at} is unknown.", "Record it.") for at in range(5)),
            *(unsure(f"d.{at}", "It is unknown.", f"Ask {at}.") for at in range(5)),
        ),
    )
    points, rest = points_of(document)
    assert points[:3] == [
        "One is unknown. 0 is unknown. Record it. (a.one, c.0, c.1, c.2 and 2 more)",
        "Two is unknown. Look at it. (b.two)",
        "It is unknown. Ask 0. (d.0)",
    ]
    # Of the last five remedies three have room.
    assert len(points) == 5
    assert rest.startswith("2 checks without a verdict and ")


def test_a_doubt_about_the_recording_comes_first_and_takes_room() -> None:
    text = page(blueprint.a2())
    assert text.split("What could not be seen")[1].count("•") <= 5
