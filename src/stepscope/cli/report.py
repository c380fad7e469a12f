"""Implementation of `stepscope report`, after its options are parsed.

Modules that only some options need are imported when these options are used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from stepscope.cli.output import (
    check_free,
    deliver_answer,
    has_colours,
    show_progress,
    styled_text,
    text_width,
)
from stepscope.cli.requests import REPORT_FORMS, ReportRequest
from stepscope.doctor.kernel_checks import uncompiled_notice
from stepscope.errors import BadUsage
from stepscope.formats.collective_dumps import find_collective_dumps
from stepscope.reporting.compose import (
    compose_report,
    explain_rule,
    judge_profile,
    stage_count,
)
from stepscope.reporting.from_python import failing_findings
from stepscope.reporting.outline import as_markdown, as_text
from stepscope.reporting.outline.report import SECTIONS, SHORT_SECTIONS, report_outline
from stepscope.reporting.page import Piece, line, plain_text
from stepscope.session import open_profile
from stepscope.thresholds import THRESHOLDS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from stepscope.advice.finding import Finding, Severity
    from stepscope.cli.requests import DiffRequest, ExplainRequest, TryRequest
    from stepscope.compare.measured import MeasuredSteps
    from stepscope.compare.store import RunOutcomes
    from stepscope.derive.profile_data import ProfileData
    from stepscope.reporting.document import Document
    from stepscope.reporting.outline.parts import Outline
    from stepscope.reporting.page import Line

#: Values of --fail-on → the least severity that fails, as findings write it.
_FAILS_ON: Final[dict[str, Severity]] = {"critical": "critical", "warning": "warn"}


def answer_request(request: ReportRequest) -> int:
    """Report on one profile, or compare two; return the exit status."""
    _check_options(request)
    check_free(request.output, force=request.force)
    kept_in = None
    if request.store:
        from stepscope.compare.store import promise_file, read_promises  # noqa: PLC0415 - needed only with --store

        kept_in = promise_file(request.paths[0])
        # A damaged file is detected before any analysis.
        read_promises(kept_in)
    if (files := find_collective_dumps(request.paths)) and not request.against:
        return _report_hang(request, files)
    if request.explain is not None:
        _explain_verdict(request, request.explain)
    elif request.against:
        _compare_runs(request, kept_in)
    else:
        document = _report_run(request, kept_in)
        if request.fail_on is not None:
            severity = _FAILS_ON[request.fail_on]
            return int(bool(failing_findings(document.findings, severity)))
    return 0


def answer_difference(request: DiffRequest) -> int:
    """Compare two runs, and return the exit status."""
    fields = msgspec.structs.asdict(request)
    paths, against = (fields.pop("new"),), (fields.pop("base"),)
    return answer_request(ReportRequest(paths=paths, against=against, **fields))


def _check_options(request: ReportRequest) -> None:
    if request.form not in REPORT_FORMS:
        raise BadUsage.unknown_name("format", request.form, REPORT_FORMS)
    if request.explain is not None and (request.against or request.store):
        raise BadUsage(
            "--explain is about one run: leave out --against and --store, or run "
            "--explain separately"
        )
    if request.same_work and not (request.against or request.store):
        raise BadUsage("--same-work is about two runs: add --against BASE or --store")
    if request.fail_on is not None:
        if request.fail_on not in _FAILS_ON:
            raise BadUsage.unknown_name("severity", request.fail_on, _FAILS_ON)
        if request.explain is not None or request.against:
            raise BadUsage(
                "--fail-on is about the findings of one run: leave out --explain and "
                "--against"
            )
    _check_html_options(request)
    if request.kernels is not None and request.against:
        raise BadUsage("--kernels is about one run: leave out --against")
    if request.synthetic and not request.against:
        raise BadUsage("--synthetic is about two runs: add --against BASE")


def _check_html_options(request: ReportRequest) -> None:
    if request.redact_map is not None and not request.redact:
        raise BadUsage("--redact-map is about --redact: add it")
    if request.form != "html":
        if request.redact:
            raise BadUsage("--redact is about a file with the page: add --format html")
        return
    if request.output is None:
        raise BadUsage("--format html writes a file: add -o FILE")
    if request.explain is not None or request.against or request.store:
        raise BadUsage(
            "--format html is about one run: leave out --explain, --against and --store"
        )


def _report_run(request: ReportRequest, kept_in: Path | None) -> Document:
    is_short = not (request.full or request.form == "json")
    with show_progress(1 + stage_count(is_short=is_short)) as shown:
        shown.stage("Reading")
        run = open_profile(*request.paths, kernels=request.kernels)
        document = compose_report(run, shown, is_short=is_short)
    if request.form == "html":
        from stepscope.serve.saved.html_file import (  # noqa: PLC0415 - needed only for this format
            write_html,
        )

        html, names = write_html(run, is_redacted=request.redact)
        deliver_answer(html, request.output)
        if request.redact_map is not None:
            deliver_answer(msgspec.json.encode(names), request.redact_map)
        return document
    answers = None
    if kept_in is not None:
        answers = _keep_promises(request, kept_in, _measure_run(run, document.findings))
    if request.form == "json":
        from stepscope.reporting import to_json  # noqa: PLC0415 - needed only for this format

        promises = _as_json(kept_in, answers)
        deliver_answer(to_json.render_document(document, promises), request.output)
        return document
    sections = SECTIONS if request.full else SHORT_SECTIONS
    outline = report_outline(document, sections=sections)
    show_outline((*outline, *_kept_outline(kept_in, answers)), request)
    return document


def _report_hang(request: ReportRequest, files: Sequence[Path]) -> int:
    """Report why a job hangs; with --fail-on, the exit status is 1 if it does."""
    from stepscope.analysis.hangs.hang import find_hang  # noqa: PLC0415 - needed only for dumps
    from stepscope.formats.collective_dumps import read_collective_dumps  # noqa: PLC0415
    from stepscope.reporting.outline.hangs import hang_outline  # noqa: PLC0415

    if request.form == "html" or request.explain is not None or request.store:
        raise BadUsage(
            "dumps of collective calls hold no steps: leave out --format html, "
            "--explain and --store"
        )
    ranks, unread = read_collective_dumps(files)
    hang = find_hang(ranks)
    if request.form == "json":
        from stepscope.reporting import to_json  # noqa: PLC0415 - needed only for this format

        deliver_answer(to_json.render_hang(hang, unread), request.output)
    else:
        show_outline((*hang_outline(hang, unread),), request)
    return int(request.fail_on is not None and hang.cause != "none")


def _compare_runs(request: ReportRequest, kept_in: Path | None) -> None:
    from stepscope.compare.comparison import compare_runs  # noqa: PLC0415 - needed only with --against
    from stepscope.reporting.outline.comparison import (  # noqa: PLC0415
        comparison_outline,
    )

    with show_progress(4) as shown:
        shown.stage("Reading")
        base, new = (open_profile(*paths) for paths in (request.against, request.paths))
        shown.stage("Findings")
        runs = [_measure_run(run, judge_profile(run).findings) for run in (base, new)]
        shown.stage("Comparing")
        comparison = compare_runs(
            *runs,
            thresholds=THRESHOLDS,
            same_work=request.same_work,
            synthetic=request.synthetic,
        )
    answers = None if kept_in is None else _keep_promises(request, kept_in, runs[1])
    if request.form == "json":
        from stepscope.reporting import to_json  # noqa: PLC0415 - needed only for this format

        promises = _as_json(kept_in, answers)
        deliver_answer(to_json.render_comparison(comparison, promises), request.output)
        return
    show_outline(
        (*comparison_outline(comparison), *_kept_outline(kept_in, answers)), request
    )


def _explain_verdict(request: ReportRequest, rule: str) -> None:
    from stepscope.reporting.outline.explanation import (  # noqa: PLC0415 - needed only with --explain
        explanation_outline,
    )

    with show_progress(3) as shown:
        shown.stage("Reading")
        profile = open_profile(*request.paths, kernels=request.kernels)
        shown.stage("Explaining")
        explanation = explain_rule(profile, rule)
    if request.form == "json":
        from stepscope.reporting import to_json  # noqa: PLC0415 - needed only for this format

        deliver_answer(to_json.render_explanation(explanation), request.output)
        return
    show_outline(explanation_outline(explanation), request)


def show_outline(
    outline: Outline, request: ReportRequest | ExplainRequest | TryRequest
) -> None:
    """Write an outline as Markdown or as a page of text."""
    if request.form == "markdown":
        deliver_answer(as_markdown.render(outline), request.output)
    else:
        show_lines(as_text.render(outline, width=text_width()), request.output)


def _measure_run(profile: ProfileData, findings: tuple[Finding, ...]) -> MeasuredSteps:
    from stepscope.compare.measured import measure_run  # noqa: PLC0415 - needed only to compare runs

    return measure_run(profile, findings)


def _keep_promises(
    request: ReportRequest, kept_in: Path, run: MeasuredSteps
) -> tuple[RunOutcomes, ...]:
    from stepscope.compare.store import (  # noqa: PLC0415 - needed only with --store
        answer_promises,
        read_promises,
        write_promises,
    )

    after, answers = answer_promises(
        # Read the file again: another report may have changed it.
        read_promises(kept_in),
        run,
        thresholds=THRESHOLDS,
        same_work=request.same_work,
    )
    write_promises(kept_in, after)
    return answers


def _kept_outline(
    kept_in: Path | None, answers: tuple[RunOutcomes, ...] | None
) -> Outline:
    if kept_in is None or answers is None:
        return ()
    from stepscope.reporting.outline.promises import (  # noqa: PLC0415 - needed only with --store
        answers_outline,
    )

    return answers_outline(answers, str(kept_in))


def _as_json(
    kept_in: Path | None, answers: tuple[RunOutcomes, ...] | None
) -> dict[str, object]:
    if kept_in is None:
        return {}
    return {"promises_kept": {"file": str(kept_in), "answers": answers}}


def compose_with_progress(paths: Sequence[str]) -> Document:
    """Compute everything that a report needs, and show the progress."""
    with show_progress(1 + stage_count()) as shown:
        shown.stage("Reading")
        return compose_report(open_profile(*paths), shown)


def show_lines(lines: Sequence[Line], output: str | None = None) -> None:
    """Write a page of text, in colours where they are wanted.

    If the kernels are not compiled, the last line states that stepscope is slower.
    """
    if (notice := uncompiled_notice()) is not None:
        lines = [*lines, line(Piece(notice, "warn"))]
    is_styled = output is None and has_colours()
    deliver_answer(styled_text(lines) if is_styled else plain_text(lines), output)
