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
from stepscope.report.compose import compose
from stepscope.report.outline import as_text
from stepscope.report.outline.whole import report_outline
from stepscope.report.page import plain_text, wrapped
from stepscope.report.text import model as text_model
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


@dataclass(frozen=True)
class Asked:
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


def asked(given: Mapping[str, object]) -> Asked:
    """Read the options of one call.

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
    _without_columns(options, notes)
    _trained_only(options)
    output, outfile = _output(options, notes)
    return Asked(options, output, outfile, tuple(notes))


def checkers_noted(options: Mapping[str, object] | None) -> tuple[str, ...]:
    """Return what is said of options of the older `advise`.

    Raises:
        BadUsage: There is no such check.
    """
    for name in options or ():
        if name not in CHECKERS:
            raise BadUsage.unknown_name("check", name, CHECKERS)
    if not options:
        return ()
    return (f"{', '.join(options)}: every rule is run here, with its own thresholds.",)


def _without_columns(options: dict[str, object], notes: list[str]) -> None:
    """Take away columns that there are not, and an order by one of them."""
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


def _trained_only(options: dict[str, object]) -> None:
    """Variables that are trained are asked for by a type of their own there."""
    types = options.get("account_type_regexes")
    if not isinstance(types, list | tuple) or _TRAINED not in types:
        return
    others = [one for one in types if one != _TRAINED]
    options["account_type_regexes"] = [*others, VARIABLE] if others else EVERYTHING
    options["show_trainable_variables"] = True
    if not others:
        options["min_params"] = options.get("min_params") or 1


def _output(options: dict[str, object], notes: list[str]) -> tuple[str, str]:
    """Kind and file of `output`, and of its forerunner `dump_to_file`."""
    dumped = options.pop("dump_to_file", "")
    said = options.pop("output", "none")
    if dumped:
        return "file", str(dumped)
    kind, _, rest = str(said).partition(":")
    outfile = rest.removeprefix("outfile=")
    if kind not in _OUTPUTS:
        raise BadUsage.unknown_name("output", kind, _OUTPUTS)
    if kind == "timeline":
        notes.append(f"{_TIMELINE}.")
        return "none", ""
    if kind in {"file", "pprof"} and not outfile:
        raise BadUsage(f"output={said!r} names no file; write '{kind}:outfile=FILE'.")
    return kind, outfile


_TOOL: Final = "model_views"
_NARROWEST: Final = 60
#: How many known names a message lists where one was not found.
_TOLD: Final = 8


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


class _Silent:
    """Nobody waits for stages here."""

    def stage(self, what: str) -> None:
        """Show nothing."""


def view_of(
    profile: ProfileWithTools,
    view: View,
    given: Mapping[str, object],
    *,
    name: str,
    scope: str | None = None,
) -> ModelView:
    """Look at a recording as one call of the older API asks to.

    Args:
        profile: The recording.
        view: Which view.
        given: Options of the older API and of `model_views`.
        name: What the recording is called.
        scope: Only steps of this name, or only this name scope.

    Raises:
        BadUsage: An option does not exist, or has a value that it cannot have.
    """
    wanted = asked(given)
    narrowed = _narrowed(profile, scope, wanted.options)
    result: ModelViewsResult | Unavailable = (
        narrowed
        if isinstance(narrowed, Unavailable)
        else _of_view(profile.tool(_TOOL, **narrowed, view=view), view)
    )
    notes = (*wanted.notes, *_fewer(result, wanted.options))
    title = f"{view} view · {name} · {', '.join(profile.hosts)}"
    if isinstance(result, ModelViewsResult):
        text = text_model.render_view(
            result, view=view, title=title, others=VIEWS, width=_width()
        )
    else:
        text = to_table.render_unavailable(title, result, width=_width())
    found = ModelView(_noted(text, notes), result, notes)
    _put_out(found, view, wanted, title)
    return found


def _of_view(
    result: ModelViewsResult | Unavailable, view: View
) -> ModelViewsResult | Unavailable:
    """Return the result, or why nothing is known of the one view of it."""
    if isinstance(result, Unavailable) or len(getattr(result, view)):
        return result
    for one in result.missing:
        if one.field == view:
            return Unavailable(code=one.code, reason=one.reason, remedy=one.remedy)
    return result


def advice_on(
    profile: ProfileWithTools, options: Mapping[str, object] | None
) -> Advice:
    """Run every rule over a recording.

    Raises:
        BadUsage: The options name a check that does not exist.
    """
    notes = checkers_noted(options)
    document = compose(profile, _Silent())
    text = plain_text(as_text.render(report_outline(document), width=_width()))
    return Advice(_noted(text, notes), document.findings, notes)


def _width() -> int:
    return max(_NARROWEST, shutil.get_terminal_size().columns)


def _noted(text: str, notes: tuple[str, ...]) -> str:
    if not notes:
        return text
    lines = [piece for note in notes for piece in wrapped(note, _width(), indent=2)]
    return text + plain_text(lines)


def _narrowed(
    profile: ProfileWithTools, scope: str | None, options: Mapping[str, object]
) -> dict[str, Any] | Unavailable:
    """Return the options with the steps or the name scope of that name chosen.

    Raises:
        BadUsage: A scope and other roots are asked for at once.
    """
    if scope is None:
        return dict(options)
    marks = {mark for host in profile.hosts for mark in _marks(profile, host)}
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
    names = everything.scope["name"].to_list()
    root = rf"(.*/)?{re.escape(scope)}"
    if any(re.fullmatch(root, one, re.DOTALL) for one in names):
        return {**options, "start_name_regexes": (root,)}
    outermost = everything.scope.filter(everything.scope["depth"] == 1)["name"]
    there = ", ".join([*sorted(marks), *outermost.head(_TOLD)])
    return Unavailable(
        code="NOT_RECORDED",
        reason=f"no step and no name scope of the recording is called {scope!r}.",
        remedy=f"Take one that is there ({there}), or mark steps so: "
        f"`with ss.StepTrace(i, {scope!r}): ...`.",
    )


def _marks(profile: ProfileWithTools, host: str) -> list[str]:
    """Return names that steps of a host are marked with."""
    found = profile.derived(host, steps)
    if isinstance(found, Unavailable):
        return []
    marks: list[str] = found.rows["marker"].drop_nulls().unique().to_list()
    return marks


def _fewer(result: object, options: Mapping[str, object]) -> tuple[str, ...]:
    """That fewer steps were recorded than asked for."""
    wanted = options.get("last_steps")
    if not isinstance(result, ModelViewsResult) or not isinstance(wanted, int):
        return ()
    most = max(map(len, (result.steps or {}).values()), default=0)
    if most >= wanted:
        return ()
    return (f"{most} of the {wanted} steps asked for were recorded.",)


def _put_out(found: ModelView, view: View, wanted: Asked, title: str) -> None:
    """Print the view, or write it into a file, where the options ask for it."""
    if wanted.output == "stdout":
        sys.stdout.write(found.text)
        return
    if wanted.output == "none":
        return
    content = found.text.encode()
    if wanted.output == "pprof":
        if isinstance(found.result, Unavailable):
            raise BadUsage(f"{wanted.outfile}: not written: {found.result.reason}")
        rows = getattr(found.result, view)
        content = to_pprof.render(rows, view=view, comments=(title,))
    try:
        Path(wanted.outfile).write_bytes(content)
    except OSError as error:
        why = f"{wanted.outfile}: cannot be written ({error.strerror})."
        raise BadUsage(why) from error
