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
        actions: Actions of findings that it carries out.
        settings: What is set inside the program.
        environment: Variables that the launcher sets.
        write: Lines that make the change permanent.
    """

    knob: str
    name: str
    numerics: bool
    actions: tuple[str, ...]
    settings: tuple[Setting, ...]
    environment: tuple[tuple[str, str], ...]
    write: tuple[str, ...]


class Knob(Frozen, frozen=True, forbid_unknown_fields=True):
    """A row of `knobs.toml`, which describes the columns."""

    rules: tuple[str, ...]
    set: tuple[bool | int | str, ...]
    change: str
    actions: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    numerics: bool = False
    also: dict[str, str] = msgspec.field(default_factory=dict)


@cache
def load_knobs() -> dict[str, Knob]:
    """Return all knobs by id, in the order in which they are tried."""
    text = Path(__file__).with_name("knobs.toml").read_text("utf-8")
    return {
        name: msgspec.convert(row | {"numerics": group == "differ"}, Knob)
        for group, rows in tomllib.loads(text).items()
        for name, row in rows.items()
    }


def knobs_for_rule(rule: str, frameworks: Collection[str]) -> list[str]:
    """Return the ids of the knobs that answer a rule and fit the program."""
    known = {"any", *frameworks}
    return [
        name
        for name, knob in load_knobs().items()
        if rule in knob.rules and name.partition(".")[0] in known
    ]


def can_try(rule: str, action: str) -> bool:
    """Return whether a knob carries out an action of a finding."""
    return any(
        rule in knob.rules and action in knob.actions for knob in load_knobs().values()
    )


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
    how, target, argument, *declared = knob.set
    cores = core_count()
    meanings: dict[Value, Value] = {
        "cores": cores,
        "half_cores": max(cores // 2, 1),
        "folder": f"{folder}/{name}",
    }
    module, _, paths = str(target).partition(":")
    before = environment.get(str(argument)) if how == "environment" else None
    changes = []
    for value in dict.fromkeys(meanings.get(each, each) for each in declared):
        variables = dict(knob.also)
        if how == "environment":
            is_list = before and argument in _FLAG_LISTS
            variables[str(argument)] = f"{before} {value}" if is_list else str(value)
        shown = {"value": value, "last": value - 1 if isinstance(value, int) else 0}
        settings = tuple(
            Setting(name, str(how), f"{module}:{path}", str(argument), value)
            for path in paths.split() or [""]
        )
        change = Change(
            knob=name,
            name=knob.change.format(**shown),
            numerics=knob.numerics,
            actions=knob.actions,
            settings=settings,
            environment=tuple(variables.items()),
            write=tuple(line.format(**shown) for line in knob.write or (knob.change,)),
        )
        if before != str(value):
            changes.append(change)
    return tuple(changes)
