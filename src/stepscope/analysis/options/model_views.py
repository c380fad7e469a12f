"""Options of `model_views`, with the names of the older profiler's API."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from stepscope.analysis.options.values import MOST_CALLS, Column, Name, Regex
from stepscope.derive.model.view_names import AnyView

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


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What to show; None leaves it to the preset, and then to the defaults.

    A regular expression matches a whole name, or it does not match.

    Attributes:
        view: The view that is shown first; all of them are in the result.
        op: Only the annotation with this name: its calls, steps, ops and kernels.
        most_calls: Largest number of calls to list; none for all.
        preset: Options that go together; each can still be given.
        step: Only what ran in the step with this number.
        step_name: Only what ran in steps that are marked with this name.
        last_steps: Only what ran in the last so many steps (of that name).
        max_depth: Nodes no deeper than this; 1 is a root.
        min_micros: Nodes with at least this total time, in µs.
        min_accelerator_micros: Nodes with at least this total time on devices, in µs.
        min_cpu_micros: Nodes with at least this total time on hosts, in µs.
        min_bytes: Nodes that asked for at least so many bytes.
        min_params: Nodes that read at least so many elements of variables.
        min_float_ops: Nodes that did at least so many floating-point operations.
        min_occurrence: Nodes with at least so many executions.
        order_by: Siblings by this, the greatest first; names and depths the other way.
        account_type_regexes: Only ops with such a type count at all.
        start_name_regexes: Only these nodes, and what is beneath them.
        trim_name_regexes: Not these nodes, and nothing beneath them.
        show_name_regexes: Only these nodes; what is beneath them moves up.
        hide_name_regexes: Not these nodes; what is beneath them moves up.
        account_displayed_op_only: Totals of what is shown alone, and of what is only
            deeper than `max_depth`.
        show_trainable_variables: Also nodes with trained variables, however little
            they cost, and the column of them; variables that are not trained count in
            no node.
        select: Groups of columns (micros, accelerator_micros, cpu_micros, bytes,
            params, float_ops, occurrence, op_types); all where it is left out.
    """

    view: AnyView = "scope"
    op: Name | None = None
    most_calls: Annotated[int, msgspec.Meta(ge=1)] | None = MOST_CALLS
    preset: Preset | None = None
    step: int | None = None
    step_name: Name | None = None
    last_steps: int | None = None
    max_depth: int | None = None
    min_micros: Annotated[float, msgspec.Meta(title="US")] | None = None
    min_accelerator_micros: Annotated[float, msgspec.Meta(title="US")] | None = None
    min_cpu_micros: Annotated[float, msgspec.Meta(title="US")] | None = None
    min_bytes: int | None = None
    min_params: int | None = None
    min_float_ops: int | None = None
    min_occurrence: int | None = None
    order_by: OrderBy | None = None
    account_type_regexes: tuple[Regex, ...] | None = None
    start_name_regexes: tuple[Regex, ...] | None = None
    trim_name_regexes: tuple[Regex, ...] | None = None
    show_name_regexes: tuple[Regex, ...] | None = None
    hide_name_regexes: tuple[Regex, ...] | None = None
    account_displayed_op_only: bool | None = None
    show_trainable_variables: bool | None = None
    select: tuple[Column, ...] | None = None
