"""Options of the older profiler, as `model_views` takes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from stepscope.analysis.model_views import Options
from stepscope.derive.model.charges import VARIABLE
from stepscope.errors import BadUsage

if TYPE_CHECKING:
    from collections.abc import Mapping

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
