"""The options of `show model_views`, one each, with the names of the older API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["chosen_model_options", "model_options"]

_Command = TypeVar("_Command", bound="Callable[..., Any]")

#: Option → its value's name and its help.
_NUMBERS: Final = {
    "step": ("N", "only what ran in this step."),
    "last_steps": ("N", "only what ran in the last so many steps."),
    "max_depth": ("N", "nodes no deeper than this; 1 is a root."),
    "min_micros": ("US", "nodes with at least this total time."),
    "min_accelerator_micros": ("US", "nodes with at least this time on devices."),
    "min_cpu_micros": ("US", "nodes with at least this time on hosts."),
    "min_bytes": ("N", "nodes that asked for at least so much memory."),
    "min_params": ("N", "nodes that read at least so many parameters."),
    "min_float_ops": ("N", "nodes with at least so many operations."),
    "min_occurrence": ("N", "nodes with at least so many executions."),
}
_REGEXES: Final = {
    "account_type_regexes": "only ops of these types count.",
    "start_name_regexes": "only these nodes and what is beneath them.",
    "trim_name_regexes": "not these nodes, nor what is beneath them.",
    "show_name_regexes": "only these nodes.",
    "hide_name_regexes": "not these nodes.",
}


def model_options(command: _Command) -> _Command:
    """Give a command the options of `model_views`."""
    declared = [
        click.option(
            "--view", metavar="VIEW", help="model_views: scope, graph, op or code."
        ),
        click.option(
            "--preset",
            metavar="NAME",
            help="model_views: time_and_memory, trainable_variables_parameter or "
            "float_operation.",
        ),
        click.option(
            "--step-name",
            metavar="NAME",
            help="model_views: only what ran in steps that are marked so.",
        ),
        *(
            click.option(
                _flag(name),
                type=float if metavar == "US" else int,
                metavar=metavar,
                help=f"model_views: {text}",
            )
            for name, (metavar, text) in _NUMBERS.items()
        ),
        *(
            click.option(
                _flag(name),
                multiple=True,
                metavar="REGEX",
                help=f"model_views: {text} Matches the whole; may be repeated.",
            )
            for name, text in _REGEXES.items()
        ),
        click.option(
            "--order-by",
            metavar="COLUMN",
            help="model_views: name, depth, micros, accelerator_micros, cpu_micros, "
            "bytes, params, float_ops or occurrence.",
        ),
        click.option(
            "--select",
            metavar="COLUMN,…",
            help="model_views: micros, accelerator_micros, cpu_micros, bytes, params, "
            "float_ops, occurrence, op_types.",
        ),
        click.option(
            "--account-displayed-op-only",
            is_flag=True,
            default=None,
            help="model_views: totals of what is shown alone.",
        ),
        click.option(
            "--show-trainable-variables",
            is_flag=True,
            default=None,
            help="model_views: also nodes with trained variables, and their column.",
        ),
    ]
    for option in reversed(declared):
        command = option(command)
    return command


def chosen_model_options(given: dict[str, Any]) -> dict[str, object]:
    """The options that were given, as `model_views` takes them."""
    chosen: dict[str, object] = {}
    for name, value in given.items():
        if value is None or value == ():
            continue
        chosen[name] = value
        if name == "select":
            chosen[name] = tuple(one for one in value.split(",") if one)
    return chosen


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"
