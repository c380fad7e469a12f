"""What the older profiler's verbs give: views of a recording, and advice."""

from __future__ import annotations

import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from stepscope.analysis.model_views import ModelViewsResult
from stepscope.derive.model.view_names import VIEWS
from stepscope.derive.steps.chosen import steps
from stepscope.errors import BadUsage
from stepscope.profiler.asked import EVERYTHING, asked, checkers_noted
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
    from stepscope.analysis.profile import ProfileWithTools
    from stepscope.derive.model.view_names import View
    from stepscope.profiler.asked import Asked

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
