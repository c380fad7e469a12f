"""Presets of `model_views`, and its options with everything decided."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from stepscope.analysis.options.model_views import Options, OrderBy
from stepscope.analysis.results.patterns import check_pattern
from stepscope.errors import BadUsage

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


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """`Options` with everything decided; the fields of the same names.

    Attributes:
        trainable_only: Whether only trained variables count, of those that the
            recording describes, as one of the presets and `show_trainable_variables`
            ask.
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
