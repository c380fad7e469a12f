"""What is said of a step that went wrong, in one line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepscope.units import duration_text

if TYPE_CHECKING:
    from stepscope.capture.flight.notebook import Notebook
    from stepscope.capture.flight.watch import Slow, Step

_PS_PER_NS: Final = 1_000
#: Characters of an exception's own text.
_SHOWN: Final = 120
#: A function counts as what a step waited in from this share of the time on.
_MOSTLY: Final = 0.3


def of_slow_step(slow: Slow, notebook: Notebook) -> str:
    """Say what a slow step waited for: what took longest beyond its usual time."""
    step, median_ns = slow
    usual = notebook.usual_parts(step)
    excess = {
        name: took_ns - usual.get(name, 0)
        for name, took_ns in notebook.parts(step).items()
    }
    name, longer_ns = max(excess.items(), key=lambda it: it[1])
    line = (
        f"{step.name} {step.number} took {_words(step.dur_ns)}, "
        f"{step.dur_ns / median_ns:.1f} times the median of {_words(median_ns)}: "
    )
    if name:
        line += f"{_words(longer_ns)} longer than usual in {name}"
    else:
        line += f"{_words(longer_ns)} longer than usual outside of any annotation"
    functions = notebook.functions(step.thread, step.begin_ns, step.end_ns)
    return line + _mostly_in(functions, longer_ns)


def of_hang(
    last: Step, notebook: Notebook, *, main_thread: int, since_ns: int, now_ns: int
) -> str:
    """Say since when no step has ended, and where the program is."""
    line = (
        f"no step has ended for {_words(now_ns - since_ns)}; the last one was "
        f"{last.name} {last.number}"
    )
    for thread, what in ((last.thread, "its thread"), (main_thread, "the main thread")):
        functions = notebook.functions(thread, since_ns, now_ns)
        if functions:
            longest = max(functions, key=lambda it: functions[it])
            return f"{line}. Since then {what} was mostly in {longest}"
    return line


def of_exception(error: BaseException, last: Step | None) -> str:
    """Say which exception ends the program, and after which step."""
    text = str(error).split("\n")[0][:_SHOWN]
    line = f"ended by {type(error).__name__}" + (f": {text}" if text else "")
    if last is None:
        return line
    return f"{line}; the last step was {last.name} {last.number}"


def _mostly_in(functions: dict[str, int], of_ns: int) -> str:
    if not functions:
        return ""
    longest = max(functions, key=lambda it: functions[it])
    if functions[longest] < _MOSTLY * of_ns:
        return ""
    return f", mostly in {longest}"


def _words(ns: int) -> str:
    return duration_text(ns * _PS_PER_NS)
