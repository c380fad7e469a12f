"""Knobs: the changes that `stepscope try` can apply, declared in `knobs.toml`."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from stepscope.cores import core_count
from stepscope.frozen import Frozen
from stepscope.trials.inside.turn_files import Setting

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from stepscope.trials.inside.turn_files import Value

#: Variables whose value is a list of flags: the user's own flags stay.
_FLAG_LISTS: Final = frozenset({"TF_XLA_FLAGS"})


class Change(Frozen, frozen=True, eq=True):
    """A knob with one of its values.

    Attributes:
        knob: Id of the knob.
        name: Name of the change, for display.
        numerics: Whether results can differ.
        settings: What is set inside the program.
        environment: Variables that the launcher sets.
        write: Lines that make the change permanent.
    """

    knob: str
    name: str
    numerics: bool
    settings: tuple[Setting, ...]
    environment: tuple[tuple[str, str], ...]
    write: tuple[str, ...]


class Knob(Frozen, frozen=True, forbid_unknown_fields=True, rename={"setter": "set"}):
    """A row of `knobs.toml`, which describes the columns."""

    rules: tuple[str, ...]
    setter: tuple[str, str, str]
    values: tuple[bool | int | str, ...]
    change: str
    write: tuple[str, ...] = ()
    numerics: bool = False
    also: dict[str, str] = msgspec.field(default_factory=dict)


@cache
def load_knobs() -> dict[str, Knob]:
    """Return all knobs by id, in the order of their file."""
    text = Path(__file__).with_name("knobs.toml").read_text("utf-8")
    return msgspec.convert(tomllib.loads(text), dict[str, Knob])


def knobs_for_rule(rule: str, frameworks: Collection[str]) -> list[str]:
    """Return the ids of the knobs that answer a rule and fit the program."""
    known = {"any", *frameworks}
    return [
        name
        for name, knob in load_knobs().items()
        if rule in knob.rules and name.partition(".")[0] in known
    ]


def knob_changes(
    name: str, environment: Mapping[str, str], folder: str
) -> tuple[Change, ...]:
    """Return the changes of a knob on this machine, in the order to try them.

    Args:
        environment: The program's environment; a variable that has the value already
            is no change.
        folder: Parent of the folder for a knob that needs one.
    """
    knob = load_knobs()[name]
    cores = core_count()
    meanings: dict[str, Value] = {
        "cores": cores,
        "half_cores": max(cores // 2, 1),
        "folder": f"{folder}/{name}",
    }
    values: dict[Value, None] = dict.fromkeys(
        meanings.get(value, value) if isinstance(value, str) else value
        for value in knob.values
    )
    return tuple(
        _change_to(name, knob, value, environment)
        for value in values
        if knob.setter[0] != "environment"
        or environment.get(knob.setter[2]) != str(value)
    )


def _change_to(
    name: str, knob: Knob, value: Value, environment: Mapping[str, str]
) -> Change:
    how, target, argument = knob.setter
    variables = dict(knob.also)
    if how == "environment":
        own = environment.get(argument) if argument in _FLAG_LISTS else None
        variables[argument] = f"{own} {value}" if own else str(value)
    module, _, paths = target.partition(":")
    shown = {"value": value, "last": value - 1 if isinstance(value, int) else 0}
    return Change(
        knob=name,
        name=knob.change.format(**shown),
        numerics=knob.numerics,
        settings=tuple(
            Setting(name, how, f"{module}:{path}", argument, value)
            for path in paths.split() or [""]
        ),
        environment=tuple(variables.items()),
        write=tuple(line.format(**shown) for line in knob.write or (knob.change,)),
    )
