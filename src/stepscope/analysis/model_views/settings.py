"""Options of `model_views` with presets and defaults applied, and the chosen steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from stepscope.analysis.ops.rows import NO_OPS
from stepscope.analysis.options import OrderBy
from stepscope.analysis.results.patterns import check_pattern
from stepscope.analysis.results.tool import derived_by_host
from stepscope.derive.steps.chosen import steps
from stepscope.errors import BadUsage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepscope.analysis.options import ModelViewsOptions
    from stepscope.derive.profile_data import ProfileData
    from stepscope.unavailable import Unavailable

#: Group of columns in the option `select` → its columns.
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


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """`ModelViewsOptions` with presets and defaults applied; with the same field names.

    Attributes:
        trainable_only: Whether only trained variables count among the recorded ones;
            set by `show_trainable_variables` and by one preset.
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


#: Presets, named after methods of `ProfileOptionBuilder`, with the options that these
#: methods return. TensorFlow's `time_and_memory` shows only nodes with time and bytes;
#: here time is enough.
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


def decide_settings(options: ModelViewsOptions) -> Settings:
    """Decide every option: the given value, else the preset's value, else the default.

    Raises:
        BadUsage: A regular expression is invalid, or a column is unknown.
    """
    chosen = dict(PRESETS.get(options.preset or "", {}))
    for name in Settings.__struct_fields__:
        given = getattr(options, name, None)
        if given is not None:
            chosen[name] = given
    if chosen.get("show_trainable_variables"):
        chosen["trainable_only"] = True
        # Columns keep their declared order, so naming a group twice has no effect.
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


def choose_steps(
    profile: ProfileData, hosts: Sequence[str], options: ModelViewsOptions
) -> (
    tuple[dict[str, tuple[int, ...] | None], dict[str, tuple[int, ...]] | None]
    | Unavailable
):
    """Return rows and numbers of the steps that the options select, by host.

    Both are None for the whole recording.

    Raises:
        BadUsage: No host has such a step.
    """
    if {options.step, options.step_name, options.last_steps} == {None}:
        return dict.fromkeys(hosts), None
    if options.last_steps is not None and options.last_steps < 1:
        raise BadUsage(f"last_steps={options.last_steps} is not a number of steps")
    stepped, absent = derived_by_host(profile, steps, hosts)
    marked = {
        host: host_steps.rows.select("step", "marker").rows()
        for host, host_steps in stepped.items()
    }
    if not any(marked.values()):
        return absent.get(hosts[0], NO_OPS)
    rows: dict[str, tuple[int, ...] | None] = {}
    numbers = {}
    for host, host_steps in marked.items():
        wanted = [
            (row, number)
            for row, (number, marker) in enumerate(host_steps)
            if options.step in {None, number} and options.step_name in {None, marker}
        ][-(options.last_steps or len(host_steps)) :]
        if wanted:
            rows[host], numbers[host] = zip(*wanted, strict=True)
    if rows:
        return rows, numbers
    all_steps = [step for host_steps in marked.values() for step in host_steps]
    if options.step_name is not None:
        names = sorted({marker for _, marker in all_steps if marker is not None})
        known = ", ".join(names) or "none, because the steps were inferred"
        raise BadUsage(f"no step has the marker {options.step_name!r}; known: {known}")
    first, last = min(all_steps)[0], max(all_steps)[0]
    raise BadUsage(f"there is no step {options.step}; known: {first} to {last}")
