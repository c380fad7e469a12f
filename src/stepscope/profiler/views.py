"""What the older profiler's verbs ask for, and give: views of a recording, advice."""

from __future__ import annotations

import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from stepscope.analysis.model_views import ModelViewsResult, Options
from stepscope.derive.model.charges import VARIABLE
from stepscope.derive.model.view_names import VIEWS
from stepscope.derive.steps.chosen import steps
from stepscope.errors import BadUsage
from stepscope.report import to_pprof, to_table
from stepscope.report.compose import compose_report
from stepscope.report.outline import as_text
from stepscope.report.outline.whole import report_outline
from stepscope.report.page import plain_text, wrap_text
from stepscope.report.text.model import view_outline
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stepscope.advice.finding import Finding
    from stepscope.analysis.tools import ProfileWithTools
    from stepscope.derive.model.view_names import View

#: A choice of names that chooses all.
EVERYTHING: Final = (".*",)
#: The older API's type of variables that are trained; here they are no type.
_TRAINED: Final = "_trainable_variables"
#: Every step, as the older API says it.
_EVERY_STEP: Final = -1

_ALIVE: Final = (
    "a recording holds what an op allocated, not what it kept; "
    "`stepscope show memory_profile` has what was alive"
)
_TENSORS: Final = "a recording holds no tensors"
#: Thresholds without a meaning here → why; 0 is no threshold.
_NO_THRESHOLDS: Final = dict.fromkeys(
    ("min_peak_bytes", "min_residual_bytes", "min_output_bytes"), _ALIVE
)
#: Columns that there are not → why.
_NO_COLUMNS: Final = {
    **dict.fromkeys(("peak_bytes", "residual_bytes", "output_bytes"), _ALIVE),
    "tensor_value": _TENSORS,
    "input_shapes": "shapes are in the costs of an op, not a column",
    "device": "`accelerator_micros` and `cpu_micros` separate devices from hosts",
}
_OUTPUTS: Final = ("stdout", "none", "file", "pprof", "timeline")
_TIMELINE: Final = (
    "output: a timeline is written by "
    "`stepscope show trace_viewer PATH --format json -o FILE`; nothing was written"
)
#: Every option that a view takes.
KNOWN: Final = tuple(
    sorted(
        {*Options.__struct_fields__, *_NO_THRESHOLDS, "dump_to_file", "output"}
        - {"view"}
    )
)
#: Checks of the older `advise`.
CHECKERS: Final = (
    "AcceleratorUtilizationChecker",
    "ExpensiveOperationChecker",
    "JobChecker",
    "OperationChecker",
)


#: Name of the tool whose parameters the options set.
_TOOL: Final = "model_views"
_MIN_WIDTH: Final = 60
#: How many known names a message lists where one was not recorded.
_MAX_NAMES: Final = 8


@dataclass(frozen=True)
class ViewRequest:
    """What a call of the older API asks for.

    Attributes:
        options: Options of `model_views`.
        output: Where the view goes besides: one of "stdout", "none", "file", "pprof".
        outfile: The file, where it goes into one.
        notes: What has no meaning here, and why; a sentence each.
    """

    options: dict[str, object]
    output: str
    outfile: str
    notes: tuple[str, ...]


def read_request(given: Mapping[str, object]) -> ViewRequest:
    """Read the options of one call as those of `model_views`.

    Raises:
        BadUsage: There is no such option, or no such output.
    """
    for name in given:
        if name not in KNOWN:
            raise BadUsage.unknown_name("option of a view", name, KNOWN)
    options = dict(given)
    notes = [
        f"{name}: has no meaning here: {why}."
        for name, why in _NO_THRESHOLDS.items()
        if options.pop(name, 0)
    ]
    if options.get("step") == _EVERY_STEP:
        del options["step"]
    select = options.get("select")
    if isinstance(select, list | tuple):
        gone = [name for name in select if name in _NO_COLUMNS]
        notes += [f"select: no column {name}: {_NO_COLUMNS[name]}." for name in gone]
        options["select"] = [name for name in select if name not in gone]
        if gone and not options["select"]:
            del options["select"]
    order = options.get("order_by")
    if isinstance(order, str) and order in _NO_COLUMNS:
        notes.append(f"order_by: no column {order}: {_NO_COLUMNS[order]}.")
        del options["order_by"]
    types = options.get("account_type_regexes")
    if isinstance(types, list | tuple) and _TRAINED in types:
        others = [pattern for pattern in types if pattern != _TRAINED]
        options["account_type_regexes"] = [*others, VARIABLE] if others else EVERYTHING
        options["show_trainable_variables"] = True
        if not others:
            options["min_params"] = options.get("min_params") or 1
    # `dump_to_file` is the forerunner of `output`.
    dumped, output = options.pop("dump_to_file", ""), options.pop("output", "none")
    kind, outfile = ("file", str(dumped)) if dumped else _split_output(str(output))
    if kind == "timeline":
        notes.append(f"{_TIMELINE}.")
        kind, outfile = "none", ""
    return ViewRequest(options, kind, outfile, tuple(notes))


def _split_output(output: str) -> tuple[str, str]:
    kind, _, target = output.partition(":")
    if kind not in _OUTPUTS:
        raise BadUsage.unknown_name("output", kind, _OUTPUTS)
    outfile = target.removeprefix("outfile=")
    if kind in {"file", "pprof"} and not outfile:
        raise BadUsage(f"output={output!r} names no file; write '{kind}:outfile=FILE'.")
    return kind, outfile


@dataclass(frozen=True)
class ModelView:
    """One view of the costs of a model.

    Attributes:
        text: The view as a page of text, which `print` shows.
        result: All views as `model_views` gives them; or why there are none.
        notes: What of the call has no meaning here, a sentence each; in the text too.
    """

    text: str
    result: ModelViewsResult | Unavailable
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return the text."""
        return self.text


@dataclass(frozen=True)
class Advice:
    """Where the step time went, and what to change.

    Attributes:
        text: The report, which `print` shows.
        findings: Findings about the recording, in the order in which to act.
        notes: What of the call has no meaning here; in the text too.
    """

    text: str
    findings: tuple[Finding, ...]
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return the text."""
        return self.text


def show_view(
    profile: ProfileWithTools,
    view: View,
    given: Mapping[str, object],
    *,
    name: str,
    scope: str | None = None,
) -> ModelView:
    """Look at a recording as one call of the older API asks to.

    Args:
        given: Options of the older API and of `model_views`.
        name: What the recording is called.
        scope: Only steps of this name, or only this name scope.

    Raises:
        BadUsage: An option does not exist, or has a value that it cannot have.
    """
    request = read_request(given)
    options = _narrow_to_scope(profile, scope, request.options)
    result: ModelViewsResult | Unavailable = (
        options
        if isinstance(options, Unavailable)
        else profile.tool(_TOOL, **options, view=view)
    )
    notes, width = request.notes, _page_width()
    title = f"{view} view · {name} · {', '.join(profile.hosts)}"
    if isinstance(result, ModelViewsResult) and getattr(result, view).is_empty():
        # Why nothing is known of this one view.
        why = {missing.field: missing for missing in result.missing}.get(view)
        if why is not None:
            result = Unavailable(code=why.code, reason=why.reason, remedy=why.remedy)
    if isinstance(result, Unavailable):
        text = to_table.render_unavailable(title, result, width=width)
    else:
        wanted = request.options.get("last_steps")
        recorded = max(map(len, (result.steps or {}).values()), default=0)
        if isinstance(wanted, int) and recorded < wanted:
            fewer = f"{recorded} of the {wanted} steps asked for were recorded."
            notes = (*notes, fewer)
        outline = view_outline(result, view=view, title=title, others=VIEWS)
        text = as_text.render_page(outline, width=width)
    shown = ModelView(_add_notes(text, notes), result, notes)
    if request.output == "stdout":
        sys.stdout.write(shown.text)
    elif request.output in {"file", "pprof"}:
        content = shown.text.encode()
        if request.output == "pprof":
            if isinstance(result, Unavailable):
                raise BadUsage(f"{request.outfile}: not written: {result.reason}")
            rows = getattr(result, view)
            content = to_pprof.render(rows, view=view, comments=(title,))
        try:
            Path(request.outfile).write_bytes(content)
        except OSError as error:
            why_not = f"{request.outfile}: cannot be written ({error.strerror})."
            raise BadUsage(why_not) from error
    return shown


def advise_on(
    profile: ProfileWithTools, options: Mapping[str, object] | None
) -> Advice:
    """Run every rule over a recording.

    Raises:
        BadUsage: The options name a check that does not exist.
    """
    for name in options or ():
        if name not in CHECKERS:
            raise BadUsage.unknown_name("check", name, CHECKERS)
    notes: tuple[str, ...] = ()
    if options:
        known = ", ".join(options)
        notes = (f"{known}: every rule is run here, with its own thresholds.",)
    document = compose_report(profile)
    text = plain_text(as_text.render(report_outline(document), width=_page_width()))
    return Advice(_add_notes(text, notes), document.findings, notes)


def _page_width() -> int:
    return max(_MIN_WIDTH, shutil.get_terminal_size().columns)


def _add_notes(text: str, notes: tuple[str, ...]) -> str:
    lines = [
        line for note in notes for line in wrap_text(note, _page_width(), indent=2)
    ]
    return text + plain_text(lines) if notes else text


def _narrow_to_scope(
    profile: ProfileWithTools, scope: str | None, options: Mapping[str, object]
) -> dict[str, Any] | Unavailable:
    """Return the options with the steps or the name scope of that name chosen."""
    if scope is None:
        return dict(options)
    derived = (profile.derived(host, steps) for host in profile.hosts)
    marks = {
        mark
        for host_steps in derived
        if not isinstance(host_steps, Unavailable)
        for mark in host_steps.rows["marker"].drop_nulls()
    }
    if scope in marks:
        return {**options, "step_name": scope}
    roots = options.get("start_name_regexes", EVERYTHING)
    if not isinstance(roots, list | tuple) or tuple(roots) != EVERYTHING:
        raise BadUsage(
            f"the scope {scope!r} and start_name_regexes exclude each other; give one."
        )
    everything = profile.tool(_TOOL)
    if isinstance(everything, Unavailable):
        return everything
    root = rf"(.*/)?{re.escape(scope)}"
    names = everything.scope["name"]
    if any(re.fullmatch(root, name, re.DOTALL) for name in names):
        return {**options, "start_name_regexes": (root,)}
    outermost = names.filter(everything.scope["depth"] == 1).head(_MAX_NAMES)
    return Unavailable(
        code="NOT_RECORDED",
        reason=f"no step and no name scope of the recording is called {scope!r}.",
        remedy=f"Take one that is there ({', '.join([*sorted(marks), *outermost])}), "
        f"or mark steps so: `with ss.StepTrace(i, {scope!r}): ...`.",
    )
