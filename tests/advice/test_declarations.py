"""What a rule declares beside its function is true of it."""

from __future__ import annotations

import re
from pathlib import Path
from string import Formatter
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.traces import blueprint
from tests.support.traces.keeping import keeping
from tests.support.traces.measured import kernel_metrics
from tests.support.traces.training import (
    KERNELS,
    WATCHED,
    ahead,
    allocating,
    contended,
    cores,
    on_host,
    parallel,
    scaled,
    together,
)
from tests.support.traces.waiting import (
    AT_THE_TIME,
    GET,
    decoding,
    in_processes,
    uneven_tasks,
    waiting,
)

from stepscope.advice.engine import signals_of
from stepscope.advice.finding import Finding
from stepscope.advice.registry import RULES
from stepscope.advice.signals import Signals
from stepscope.analysis.tools import TOOLS
from stepscope.cli.demo import RECORDED
from stepscope.session import open_profile
from stepscope.unavailable import require_available

if TYPE_CHECKING:
    from stepscope.advice.item import Rule
    from stepscope.derive.run_derivation import RunDerivation
    from stepscope.trace.model import TraceData

ROOT = Path(__file__).resolve().parents[2]
#: Names that stand for something in the texts of every rule.
NAMES = {
    "passed",
    "cause",
    "reason",
    "named",
    "subject",
    "detail",
    "function",
    "bursts",
    *Finding.__struct_fields__,
}
#: Of a part that waits, and of what another thread is in meanwhile.
NAMES |= {"sleeper", "elsewhere", "worker_function"}
#: Words for the step, or for the recording if shares are of that.
NAMES |= {"of_step", "the_step", "the_steps"}
#: Of the largest part, before a verb.
NAMES |= {"subject"}
#: PyTorch's allocator takes memory.
TAKEN = ("main", "[memory]", 5.0, 0.0, {"Bytes": 8, "Addr": 1, "Device Type": 0})
#: A pipeline makes a batch for each step.
BATCHES = [
    ("loader", "Iterator::Batch", 10_000.0 * number, 2_000.0, {"id": 1})
    for number in range(14)
]
#: All cores are in use, and threads wait for them.
BUSY = {
    "busy": 100.0,
    "CPU pressure (percent)": 60.0,
    "process CPU (percent)": 1600.0,
    "threads": 64.0,
}
every_rule = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.item.id)


def noted(trace: TraceData) -> TraceData:
    """The same recording, by a producer that notes the versions of libraries."""
    environment = require_available(trace.table("environment"))
    versions = environment.with_columns(cuda_runtime=12040, cuda_driver=12040)
    return blueprint.substitute(trace, environment=versions)


def measured(trace: TraceData) -> TraceData:
    """The same recording, beside it what Nsight Compute measured of its kernels."""
    shape = {"grid_x": 864, "block_x": 128}
    table = kernel_metrics(
        *(
            {
                "kernel_name": name,
                **shape,
                "compute_percent": 20.0,
                "memory_percent": 30.0,
                "achieved_occupancy_percent": 20.0,
                "load_bytes_per_sector": 8.0,
                "store_bytes_per_sector": 8.0,
                "shared_memory_conflicts": 9.0,
                "shared_memory_wavefronts": 10.0,
                "local_memory_sectors": 9.0,
                "l1_bytes": 320.0,
            }
            for name in {name for name, _, _ in KERNELS}
        )
    )
    return trace.with_tables({"kernel_metrics": table})


@pytest.fixture(name="bases", scope="module")
def _bases() -> list[Signals]:
    """Recordings that hold, together, what each rule is about."""
    convolutions = [("cudnn_fprop", 50.0, "a/Conv2D:Conv2D"), *KERNELS]
    traces = (
        blueprint.trace(parallel(), devices=dict.fromkeys(range(4), blueprint.A100)),
        blueprint.trace([*on_host(), *WATCHED, TAKEN, *cores(16, **BUSY)]),
        noted(
            blueprint.trace(together(kernels=convolutions), devices={0: blueprint.A100})
        ),
        measured(blueprint.trace(together(), devices={0: blueprint.A100})),
        *(
            blueprint.trace(lines, devices={0: blueprint.A100})
            for lines in (
                allocating(),
                scaled(hole_us=350.0),
                [*contended(busy_us=16.0, quiet_us=6.5), *cores(16)],
                [*ahead(), *BATCHES],
                [*together(), *keeping(10, 20.0)],
                [*together(), *keeping(10, 20.0, 40.0)],
            )
        ),
    )
    unread = [it for it in waiting(inner=GET) if not it[0].startswith("core time")]
    waits = (
        *(waiting(), waiting() + decoding(AT_THE_TIME), in_processes()),
        *(uneven_tasks(), unread),
    )
    recorded = (RECORDED, ROOT / "tests" / "data" / "gpu" / "torch_healthy")
    return [
        *(signals_of(open_profile(path)) for path in recorded),
        *(signals_of(blueprint.profile(trace)) for trace in traces),
        *(signals_of(blueprint.profile(blueprint.trace(it))) for it in waits),
    ]


@pytest.fixture(name="applicable", scope="module")
def _applicable(bases: list[Signals]) -> dict[str, list[Finding]]:
    """What each rule finds where it applies."""
    found = [rule.evaluate(signals) for signals in bases for rule in RULES]
    silent = {"not_applicable", "cannot_tell"}
    return {
        rule.item.id: [
            one for one in found if one.id == rule.item.id and one.status not in silent
        ]
        for rule in RULES
    }


@every_rule
@pytest.mark.sweep(every=4)
def test_a_rule_asks_for_the_signals_that_it_declares(
    rule: Rule, bases: list[Signals]
) -> None:
    asked = set()

    def listening(signals: Signals) -> Signals:
        def value_of(wanted: RunDerivation[Any]) -> Any:
            asked.add(wanted)
            return signals.of(wanted)

        return Signals(value_of)

    for signals in bases:
        rule.evaluate(listening(signals))
    assert asked <= set(rule.reads)


@every_rule
def test_texts_name_what_a_finding_has(
    rule: Rule, applicable: dict[str, list[Finding]]
) -> None:
    findings = applicable[rule.item.id]
    assert findings, "no base of this test holds what the rule is about"
    facts = {fact.name for finding in findings for fact in finding.facts}
    facts |= {f"{name}_note" for name in facts}
    facts |= {f"mostly_{cause}" for cause in rule.item.words.causes}
    named = {
        name
        for text in rule.item.words.texts.values()
        for alternatives in text
        for one in alternatives
        for _, name, _, _ in Formatter().parse(one)
        if name is not None
    }
    assert named <= NAMES | facts


@every_rule
def test_every_note_may_go_without_a_text_of_its_own(rule: Rule) -> None:
    assert {"fail", "pass"} <= rule.item.words.texts.keys()


@every_rule
def test_every_cause_that_is_found_has_words(
    rule: Rule, applicable: dict[str, list[Finding]]
) -> None:
    found = {
        name
        for finding in applicable[rule.item.id]
        for name in (*(one.cause for one in finding.causes), *finding.because)
    }
    assert found <= rule.item.words.causes.keys()


@every_rule
def test_a_rules_docs_name_the_tools_that_show_its_numbers(rule: Rule) -> None:
    name = rule.item.id.replace(".", "_")
    text = (ROOT / "docs" / "advice" / f"{name}.md").read_text(encoding="utf-8")
    assert rule.item.tools
    assert set(rule.item.tools) <= {tool.name for tool in TOOLS}
    assert {
        tool for tool in rule.item.tools if f"../tools/{tool}.md" not in text
    } == set()


@every_rule
def test_sentences_choose_between_the_step_and_the_recording(rule: Rule) -> None:
    """`{of_step}` and `{the_step}` stand in them, for both."""
    words = rule.item.words
    texts = [*words.lead, words.passed or ""]
    texts += [text for each in words.texts.values() for many in each for text in many]
    of_steps = re.compile(r"of the step[ .,:;]|delays? the step|he step waits")
    assert [text for text in texts if of_steps.search(text)] == []
