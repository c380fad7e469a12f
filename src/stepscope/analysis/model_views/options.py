"""Options and presets of `model_views`, with the names of the older profiler's API."""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from stepscope.analysis.results.patterns import check_pattern
from stepscope.derive.model.work import View
from stepscope.errors import BadUsage

__all__ = ["PRESETS", "SELECTABLE", "Options", "Settings", "settings_of"]

OrderBy = Literal[
    "name",
    "depth",
    "micros",
    "accelerator_micros",
    "cpu_micros",
    "bytes",
    "params",
    "float_ops",
    "occurrence",
]
Preset = Literal["time_and_memory", "trainable_variables_parameter", "float_operation"]

#: Name of a choice of columns → the columns.
SELECTABLE: Final = {
    "micros": ("total_us", "self_us", "percent"),
    "accelerator_micros": ("total_device_us", "device_us"),
    "cpu_micros": ("total_host_us", "host_us"),
    "bytes": ("allocated_bytes",),
    "params": ("parameters",),
    "float_ops": ("flops", "self_flops", "flops_known_percent"),
    "occurrence": ("occurrences",),
    "op_types": ("type",),
}


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What to show; None leaves it to the preset, and to the defaults behind it.

    A regular expression matches a whole name, or it does not match.

    Attributes:
        view: The view that is shown first; all of them are in the result.
        preset: Options that go together; each can still be given.
        step: Only what ran in the step with this number.
        step_name: Only what ran in steps that are marked with this name.
        last_steps: Only what ran in the last so many steps (of that name).
        max_depth: Nodes no deeper than this; 1 is a root.
        min_micros: Nodes with at least this total time, in µs.
        min_accelerator_micros: … this total time on devices.
        min_cpu_micros: … this total time on hosts.
        min_bytes: … that asked for at least so many bytes.
        min_params: … that read at least so many elements of variables.
        min_float_ops: … that did at least so many floating-point operations.
        min_occurrence: … with at least so many executions.
        order_by: Siblings by this, the greatest first; names and depths the other way.
        account_type_regexes: Only ops with such a type count at all.
        start_name_regexes: Only these nodes, and what is beneath them.
        trim_name_regexes: Not these nodes, and nothing beneath them.
        show_name_regexes: Only these nodes; what is beneath them moves up.
        hide_name_regexes: Not these nodes; likewise.
        account_displayed_op_only: Totals of what is shown alone, and of what is only
            deeper than `max_depth`.
        show_trainable_variables: Also nodes with trained variables, however little
            they cost, and the column of them; variables that are not trained count in
            no node.
        select: Columns, by the names in `SELECTABLE`; all where it is left out.
    """

    view: View = "scope"
    preset: Preset | None = None
    step: int | None = None
    step_name: str | None = None
    last_steps: int | None = None
    max_depth: int | None = None
    min_micros: float | None = None
    min_accelerator_micros: float | None = None
    min_cpu_micros: float | None = None
    min_bytes: int | None = None
    min_params: int | None = None
    min_float_ops: int | None = None
    min_occurrence: int | None = None
    order_by: OrderBy | None = None
    account_type_regexes: tuple[str, ...] | None = None
    start_name_regexes: tuple[str, ...] | None = None
    trim_name_regexes: tuple[str, ...] | None = None
    show_name_regexes: tuple[str, ...] | None = None
    hide_name_regexes: tuple[str, ...] | None = None
    account_displayed_op_only: bool | None = None
    show_trainable_variables: bool | None = None
    select: tuple[str, ...] | None = None


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """`Options` with everything decided; the fields of the same names.

    Attributes:
        trainable_only: Of the variables that the recording describes only those that
            are trained, as one of the presets has it, and `show_trainable_variables`.
    """

    max_depth: int = 10_000
    min_micros: float = 0.0
    min_accelerator_micros: float = 0.0
    min_cpu_micros: float = 0.0
    min_bytes: int = 0
    min_params: int = 0
    min_float_ops: int = 0
    min_occurrence: int = 0
    order_by: OrderBy = "micros"
    account_type_regexes: tuple[str, ...] = (".*",)
    start_name_regexes: tuple[str, ...] = (".*",)
    trim_name_regexes: tuple[str, ...] = ()
    show_name_regexes: tuple[str, ...] = (".*",)
    hide_name_regexes: tuple[str, ...] = ()
    account_displayed_op_only: bool = False
    show_trainable_variables: bool = False
    select: tuple[str, ...] = tuple(SELECTABLE)
    trainable_only: bool = False


#: Presets by the names of the API's methods, with the values that those return. Its
#: first one also asks for bytes of every node; here a node may have one of the two.
PRESETS: Final[dict[str, dict[str, Any]]] = {
    "time_and_memory": {
        "min_micros": 1.0,
        "order_by": "micros",
        "select": ("micros", "bytes"),
        "account_displayed_op_only": True,
    },
    "trainable_variables_parameter": {
        "min_params": 1,
        "order_by": "name",
        "select": ("params",),
        "account_displayed_op_only": True,
        "trainable_only": True,
    },
    "float_operation": {
        "min_float_ops": 1,
        "order_by": "float_ops",
        "select": ("float_ops",),
        "account_displayed_op_only": True,
    },
}


def settings_of(options: Options) -> Settings:
    """Decide every option: as given, else as the preset says, else the default.

    Raises:
        BadUsage: A regular expression is none, or a column is not known.
    """
    chosen = dict(PRESETS.get(options.preset or "", {}))
    for name in Settings.__struct_fields__:
        given = getattr(options, name, None)
        if given is not None:
            chosen[name] = given
    if chosen.get("show_trainable_variables"):
        chosen["trainable_only"] = True
        # Columns stay in their own order, so that a name twice does no harm.
        chosen["select"] = (*chosen.get("select", tuple(SELECTABLE)), "params")
    settings = Settings(**chosen)
    for column in settings.select:
        if column not in SELECTABLE:
            raise BadUsage.unknown_name("column of model_views", column, SELECTABLE)
    for name in Settings.__struct_fields__:
        if name.endswith("_regexes"):
            for pattern in getattr(settings, name):
                check_pattern(pattern, name)
    return settings
