"""Every verdict of every tool, page and sentence says what the findings say.

Of each recording the verdicts are read as data: those of the input page, the sides of
the overview, tf.data's, the suggestions, the first sentence, and every sentence that
calls a program bound by input or clears it.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from tests.support.results.statements import read

from stepscope import analysis
from stepscope.derive.verdicts.input_actions import input_actions
from stepscope.reporting.outline import as_text
from stepscope.reporting.outline.report import report_outline
from stepscope.reporting.page import plain_text
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepscope.advice.finding import Finding
    from stepscope.reporting.document import Document

#: Status and severity of `input.bound` → the verdict of the input page …
WORDS = {
    ("fail", "critical"): "highly_input_bound",
    ("fail", "warn"): "moderately_input_bound",
    ("fail", "info"): "moderately_input_bound",
    ("pass", "info"): "not_input_bound",
    ("cannot_tell", "info"): "unknown",
}
#: … and of that → the side to work on.
SIDES = {
    "highly_input_bound": "host",
    "moderately_input_bound": "both",
    "not_input_bound": "device",
    "unknown": "unknown",
}
BOUND = {"fail": True, "pass": False, "cannot_tell": None}
CALLED_BOUND = re.compile(
    r"\b(?:highly|moderately) input-bound|^(?:Input|In part input)-bound\b",
    re.MULTILINE,
)
CLEARED = re.compile(r"(?i)\bnot input-bound|data arrives in time")
WRITTEN = re.compile(r"([<>]?[\d.]+) %")

#: What tf.data's analysis suggests → what the pipeline cannot lack then.
DENIED_BY_SUGGESTION = {
    "has_parallel_form": {"cheaper", "ready"},
    "sequential": {"cheaper", "ready"},
    "slow_although_parallel": {"ready"},
    "upstream_slow": {"ready"},
    "consumer_found_data": {"upstream"},
}
#: What the input page advises → what the finding does not advise then: keys of actions.
DENIED_BY_PAGE = {
    "send_smaller_batches": {"add_workers", "load_in_workers"},
    "make_late_batches_cheaper": {"load_in_workers", "send_smaller_batches"},
    "make_late_batches_cheaper_in": {"load_in_workers", "send_smaller_batches"},
    "transform_in_parallel": {"make_cheaper"},
}

#: A field with such a name says whether, or by what, a program is held up.
GIVES_A_VERDICT = re.compile(
    r"verdict|bottleneck(?!s)|input_bound|suggest|limits_steps|next_steps"
)
#: Fields of results that this file compares with the findings …
COMPARED = {
    *("HostInput.verdict", "InputPipelineResult.verdict"),
    *("InputPipelineResult.bottleneck_iterator", "InputPipelineResult.next_steps"),
    *("OverviewPageResult.bottleneck", "StepSummary.bottleneck"),
    "WorkerSummary.bottleneck",
    *("Graph.suggestion", "Graph.suggestion_kind", "Summary.bottleneck"),
    *("Summary.input_bound", "Summary.limits_steps", "Summary.suggestion"),
    *("Summary.suggestion_kind", "Summary.verdict"),
}
#: … and those of which they are made, of one step, or another producer's verdict.
PARTS_OF_RESULTS = {
    "Worker.bottleneck",
    *("DeviceSide.verdict", "HostSide.bottleneck_iterator", "_Critical.bottleneck"),
    *("InputPipelineResult.compat_verdict", "Node.bottleneck"),
}


def finding_of(document: Document, name: str = "input.bound") -> Finding:
    (found,) = (one for one in document.findings if one.id == name)
    return found


def word_of(document: Document) -> str:
    found = finding_of(document)
    return WORDS[found.status, found.severity]


def sentences(value: object) -> Iterator[str]:
    """Every text of a result, wherever it stands."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for part in value.values():
            yield from sentences(part)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from sentences(part)
    elif isinstance(value, msgspec.Struct):
        for field in value.__struct_fields__:
            yield from sentences(getattr(value, field))


def test_the_input_page_and_the_overview_have_the_verdict_of_the_finding(
    recorded_run: str, shared_profile: Any
) -> None:
    _, document = read(shared_profile(recorded_run))
    word = word_of(document)
    page, overview = document.input_pipeline, document.overview
    if not isinstance(page, Unavailable):
        assert page.verdict == word
    if not isinstance(overview, Unavailable):
        assert overview.bottleneck == SIDES[word]


def test_a_host_by_itself_has_the_verdict_of_its_own_finding(
    recorded_run: str, shared_profile: Any
) -> None:
    _, document = read(shared_profile(recorded_run))
    page, overview = document.input_pipeline, document.overview
    if isinstance(page, Unavailable) or isinstance(overview, Unavailable):
        return
    sides = {one.host: one.summary.bottleneck for one in overview.by_host}
    for one in page.by_host:
        assert sides[one.host] == SIDES[one.verdict]
        if len(page.by_host) == 1:
            assert one.verdict == page.verdict


def test_the_share_of_the_input_page_is_that_of_the_finding(
    recorded_run: str, shared_profile: Any
) -> None:
    _, document = read(shared_profile(recorded_run))
    finding, page = finding_of(document), document.input_pipeline
    if isinstance(page, Unavailable) or finding.share_percent is None:
        return
    if len(finding.devices) == 1 and page.input_percent is not None:
        assert page.input_percent == pytest.approx(finding.share_percent)
        assert document.overview.input_percent == page.input_percent
    elif page.input_percent is None:
        # Nothing was seen, or hosts are not averaged.
        assert finding.share_percent == 0.0 or len(finding.devices) > 1
    elif finding.share_percent != pytest.approx(page.input_percent, abs=0.05):
        # A mean of devices stands beside the share of the one that is judged.
        assert finding.devices[0] in page.text
        shares = [float(one.strip("<>")) for one in WRITTEN.findall(page.text)]
        assert any(abs(one - finding.share_percent) <= 0.051 for one in shares)


def test_tf_data_calls_the_run_input_bound_where_the_finding_does(
    recorded_run: str, shared_profile: Any
) -> None:
    _, document = read(shared_profile(recorded_run))
    found = document.tf_data
    if isinstance(found, Unavailable):
        return
    bound = BOUND[finding_of(document).status]
    summary = found.summary
    assert summary.input_bound is bound
    if summary.host is None:
        return  # no host's pipeline was recorded
    if summary.verdict == "slow":
        assert summary.limits_steps
    assert set(found.bottlenecks["input_bound"]) == {bound}
    if not bound:
        assert not summary.limits_steps
    if summary.limits_steps:
        assert re.search("steps wait for (them|the pipeline)", summary.text)
    elif bound is False:
        assert "hardly wait" in summary.text or "do not wait" in summary.text
        # What is not waited for is not said to need a change.
        tables = found.bottlenecks["suggestion"].drop_nulls().to_list()
        graphs = [one.suggestion for one in found.graphs if one.suggestion]
        for text in (summary.suggestion or "", *tables, *graphs):
            assert re.match(r"The steps do not wait|Nothing to", text)


def test_the_first_thing_to_try_is_about_what_the_steps_wait_for(
    recorded_run: str, shared_profile: Any
) -> None:
    _, document = read(shared_profile(recorded_run))
    finding, page = finding_of(document), document.input_pipeline
    if isinstance(page, Unavailable) or finding.status != "fail":
        return
    (cause, *_) = (one.cause for one in finding.causes)
    tried = [one.category for one in page.next_steps if one.category in page_kinds()]
    if cause == "unfed":
        assert page.next_steps[0].category == "not_recorded"
    elif cause == "transfer" and "enqueue" in tried:
        assert tried[0] == "enqueue"
    elif cause == "fetch" and set(tried) - {"enqueue"}:
        assert tried[0] != "enqueue"


def test_tf_data_and_the_check_of_stages_do_not_deny_each_other(
    recorded_run: str, shared_profile: Any
) -> None:
    _, document = read(shared_profile(recorded_run))
    stages, found = finding_of(document, "input.stage"), document.tf_data
    # A stage is slow where steps wait for input, or have no slack left.
    if stages.status == "fail":
        status = finding_of(document).status
        assert status == "fail" or finding_of(document).note == "hidden"
    if isinstance(found, Unavailable) or not found.summary.limits_steps:
        return
    denied = DENIED_BY_SUGGESTION.get(found.summary.suggestion_kind or "", set())
    assert denied.isdisjoint(stages.because)


def test_the_input_page_does_not_deny_what_the_finding_advises(
    recorded_run: str, shared_profile: Any
) -> None:
    _, document = read(shared_profile(recorded_run))
    page = document.input_pipeline
    if isinstance(page, Unavailable):
        return
    advised = {one.text for one in finding_of(document).actions}
    for step in page.next_steps:
        (key,) = keys_of(step.advice, step.category)
        denied = {input_actions()[it].text for it in DENIED_BY_PAGE.get(key, ())}
        assert denied.isdisjoint(advised), key


def keys_of(advice: str, category: str) -> list[str]:
    """The keys of the table's actions for a category that a text stands for."""
    return [
        key
        for key, action in input_actions().items()
        if category in action.categories
        and re.fullmatch(re.escape(action.text).replace(r"\{place\}", ".+"), advice)
    ]


def page_kinds() -> set[str]:
    return {
        *("demanded_file_read", "advanced_file_read", "preprocessing", "enqueue"),
        *("unclassified", "waiting_for_workers"),
    }


def test_no_sentence_calls_a_program_what_the_finding_does_not(
    recorded_run: str, shared_profile: Any
) -> None:
    """Results of tools, the headline, and the whole text of the report."""
    _, document = read(shared_profile(recorded_run))
    status = finding_of(document).status
    parts = [getattr(document, name) for name in document.__struct_fields__]
    said = [text for part in parts for text in sentences(part)]
    said.append(plain_text(as_text.render(report_outline(document), width=100)))
    for text in said:
        if status != "fail":
            assert not CALLED_BOUND.search(text), text
        if status != "pass":
            assert not CLEARED.search(text), text


def test_a_worker_that_mostly_waits_for_input_has_a_finding_that_does_not_pass(
    recorded_run: str, shared_profile: Any
) -> None:
    profile, document = read(shared_profile(recorded_run))
    pods = profile.tool("pod_viewer")
    if isinstance(pods, Unavailable):
        return
    if any(worker.bottleneck == "input" for worker in pods.workers):
        finding = finding_of(document)
        assert finding.status != "pass" or finding.note == "short"


def test_the_input_page_and_tf_data_name_one_slowest_stage(
    recorded_run: str, shared_profile: Any
) -> None:
    _, document = read(shared_profile(recorded_run))
    page, found = document.input_pipeline, document.tf_data
    if isinstance(page, Unavailable) or isinstance(found, Unavailable):
        return
    bottleneck = found.summary.bottleneck
    if bottleneck is not None:
        assert page.bottleneck_iterator == bottleneck.long_name


def test_every_field_that_gives_a_verdict_is_compared_with_the_findings() -> None:
    for module in pkgutil.walk_packages(analysis.__path__, "stepscope.analysis."):
        importlib.import_module(module.name)
    fields = {
        f"{result.__name__}.{field}"
        for result in subclasses_of(msgspec.Struct)
        if result.__module__.startswith("stepscope.analysis.")
        for field in result.__struct_fields__
        if GIVES_A_VERDICT.search(field)
    }
    assert fields - PARTS_OF_RESULTS == COMPARED


def subclasses_of(parent: type) -> Iterator[type[msgspec.Struct]]:
    for child in parent.__subclasses__():
        yield child
        yield from subclasses_of(child)


def test_the_first_sentence_is_about_a_finding_that_fails_and_says_its_share(
    recorded_run: str, shared_profile: Any
) -> None:
    _, document = read(shared_profile(recorded_run))
    headline = document.headline
    if headline.finding is None:
        return
    finding = finding_of(document, headline.finding)
    assert finding.status == "fail"
    if headline.finding == "input.bound":
        assert headline.percent == finding.share_percent
    elif headline.owner is None and headline.percent is not None:
        assert headline.percent == pytest.approx(finding.share_percent)
