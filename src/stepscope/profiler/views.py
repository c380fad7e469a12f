"""Views and advice for the API of TensorFlow's older profiler."""

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
from stepscope.reporting import to_pprof, to_table
from stepscope.reporting.compose import compose_report
from stepscope.reporting.outline import as_text
from stepscope.reporting.outline.report import report_outline
from stepscope.reporting.page import plain_text, wrap_text
from stepscope.reporting.text.model import view_outline
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stepscope.advice.finding import Finding
    from stepscope.analysis.tools import ProfileWithTools
    from stepscope.derive.model.view_names import View

#: Regular expressions that match every name.
EVERYTHING: Final = (".*",)
#: The older API's type of trained variables; stepscope has no such type.
_TRAINED: Final = "_trainable_variables"
#: Value of the older API's `step` that means all steps.
_EVERY_STEP: Final = -1

_ALIVE: Final = (
    "a recording has the bytes that an op allocated, not those that it kept; "
    "`stepscope show memory_profile` shows the live memory"
)
_TENSORS: Final = "a recording has no tensor values"
#: Threshold option that is ignored → reason; the value 0 means no threshold.
_NO_THRESHOLDS: Final = dict.fromkeys(
    ("min_peak_bytes", "min_residual_bytes", "min_output_bytes"), _ALIVE
)
#: Column of the older API that does not exist here → reason.
_NO_COLUMNS: Final = {
    **dict.fromkeys(("peak_bytes", "residual_bytes", "output_bytes"), _ALIVE),
    "tensor_value": _TENSORS,
    "input_shapes": "shapes are part of an op's costs, not a column",
    "device": "`accelerator_micros` and `cpu_micros` separate devices from hosts",
}
_OUTPUTS: Final = ("stdout", "none", "file", "pprof", "timeline")
_TIMELINE: Final = (
    "output: nothing was written; to write a timeline, use "
    "`stepscope show trace_viewer PATH --format json -o FILE`"
)
#: All options of a view.
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


#: Name of the tool that receives the options.
_TOOL: Final = "model_views"
_MIN_WIDTH: Final = 60
#: Maximum number of known names that a message lists for an unknown name.
_MAX_NAMES: Final = 8


@dataclass(frozen=True)
class ViewRequest:
    """A call of the older API, translated for stepscope.

    Attributes:
        options: Options of `model_views`.
        output: Additional output of the view: "stdout", "none", "file" or "pprof".
        outfile: Path of the output file; empty without a file.
        notes: Options that are ignored, with reasons, as sentences.
    """

    options: dict[str, object]
    output: str
    outfile: str
    notes: tuple[str, ...]


def read_request(given: Mapping[str, object]) -> ViewRequest:
    """Translate the options of the older API to those of `model_views`.

    Raises:
        BadUsage: An option or the output does not exist.
    """
    for name in given:
        if name not in KNOWN:
            raise BadUsage.unknown_name("option of a view", name, KNOWN)
    options = dict(given)
    notes = [
        f"{name}: this option is ignored: {why}."
        for name, why in _NO_THRESHOLDS.items()
        if options.pop(name, 0)
    ]
    if options.get("step") == _EVERY_STEP:
        del options["step"]
    select = options.get("select")
    if isinstance(select, list | tuple):
        gone = [name for name in select if name in _NO_COLUMNS]
        notes += [
            f"select: there is no column {name}: {_NO_COLUMNS[name]}." for name in gone
        ]
        options["select"] = [name for name in select if name not in gone]
        if gone and not options["select"]:
            del options["select"]
    order = options.get("order_by")
    if isinstance(order, str) and order in _NO_COLUMNS:
        notes.append(f"order_by: there is no column {order}: {_NO_COLUMNS[order]}.")
        del options["order_by"]
    types = options.get("account_type_regexes")
    if isinstance(types, list | tuple) and _TRAINED in types:
        others = [pattern for pattern in types if pattern != _TRAINED]
        options["account_type_regexes"] = [*others, VARIABLE] if others else EVERYTHING
        options["show_trainable_variables"] = True
        if not others:
            options["min_params"] = options.get("min_params") or 1
    # `dump_to_file` is an older form of `output`.
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
        raise BadUsage(
            f"output={output!r} has no file name; write '{kind}:outfile=FILE'."
        )
    return kind, outfile


@dataclass(frozen=True)
class ModelView:
    """One view of the costs of a model.

    Attributes:
        text: The view as a page of text, which `print` shows.
        result: All views, as `model_views` returns them, or why there are none.
        notes: Options that are ignored, as sentences; also part of the text.
    """

    text: str
    result: ModelViewsResult | Unavailable
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Advice:
    """Where the step time went, and what to change.

    Attributes:
        text: The report, which `print` shows.
        findings: Findings about the recording, in the order in which to act.
        notes: Options that are ignored, as sentences; also part of the text.
    """

    text: str
    findings: tuple[Finding, ...]
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.text


def show_view(
    profile: ProfileWithTools,
    view: View,
    given: Mapping[str, object],
    *,
    name: str,
    scope: str | None = None,
) -> ModelView:
    """Compute a view of a recording, and write it to the requested output.

    Args:
        given: Options of the older API and of `model_views`.
        name: Name of the recording in the title.
        scope: Name of steps or of a name scope, to restrict the view to.

    Raises:
        BadUsage: An option does not exist, or its value is invalid.
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
        # The reason why this view is empty takes precedence over that for all views.
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
    """Evaluate every rule on a recording.

    Raises:
        BadUsage: The options name a check that does not exist.
    """
    for name in options or ():
        if name not in CHECKERS:
            raise BadUsage.unknown_name("check", name, CHECKERS)
    notes: tuple[str, ...] = ()
    if options:
        known = ", ".join(options)
        notes = (f"{known}: stepscope evaluates every rule, with its own thresholds.",)
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
    """Return the options, restricted to the steps or name scope called `scope`."""
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
        remedy=f"Give an existing name ({', '.join([*sorted(marks), *outermost])}), or "
        f"annotate steps: `with ss.StepTrace(i, {scope!r}): ...`.",
    )
