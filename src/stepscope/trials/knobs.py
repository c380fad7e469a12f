"""Knobs: the changes that `stepscope try` can apply, declared in `knobs.toml`."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from stepscope.cores import core_count
from stepscope.frozen import Frozen
from stepscope.trials.inside.plan import Setting

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from stepscope.trials.inside.plan import Value

#: Setter of knobs that are environment variables.
_ENVIRONMENT: Final = "environment"
#: Variables whose value is a list of flags: the program's own flags stay.
_FLAG_LISTS: Final = frozenset({"TF_XLA_FLAGS"})
_TEMPORARY: Final = "temporary_folder"


class Change(Frozen, frozen=True, eq=True):
    """A knob with one of its values.

    Attributes:
        knob: Id of the knob.
        setting: How it is set inside the program.
        name: Name of the change, for display.
        numerics: Whether results can differ.
        environment: Variables that the launcher sets.
        write: Lines that make the change permanent.
    """

    knob: str
    setting: Setting
    name: str
    numerics: bool
    environment: tuple[tuple[str, str], ...] = ()
    write: tuple[str, ...] = ()


class Knob(Frozen, frozen=True, forbid_unknown_fields=True):
    """A row of `knobs.toml`, which describes the fields."""

    id: str
    framework: Literal["torch", "tensorflow", "keras", "jax", "any"]
    rules: tuple[str, ...]
    setter: str
    argument: str
    values: tuple[bool | int | str, ...]
    change: str
    write: tuple[str, ...]
    numerics: bool = False
    device: Literal["any", "gpu"] = "any"
    also: dict[str, str] = msgspec.field(default_factory=dict)

    def fits(self, frameworks: Collection[str]) -> bool:
        """Return whether the program has what the knob belongs to.

        Args:
            frameworks: Frameworks that the program has imported, and "gpu" with one.
        """
        needed = {self.framework, self.device} - {"any"}
        return needed <= set(frameworks)

    def changes(
        self, environment: Mapping[str, str], temporary: str, cores: int | None = None
    ) -> tuple[Change, ...]:
        """Return the knob's changes on this machine, in the order to try them.

        Args:
            environment: The program's environment; a variable that has the value
                already is no change.
            temporary: Folder for knobs that need one.
            cores: Number of cores; by default those of this machine.
        """
        count = core_count() if cores is None else cores
        meanings: dict[object, Value] = {
            "cores": count,
            "half_cores": max(count // 2, 1),
            _TEMPORARY: f"{temporary}/{self.id}",
        }
        values = dict.fromkeys(
            # `True` equals 1, so only texts have a meaning.
            meanings.get(value, value) if isinstance(value, str) else value
            for value in self.values
        )
        made = (self._change(value, environment) for value in values)
        return tuple(change for change in made if change is not None)

    def _change(self, value: Value, environment: Mapping[str, str]) -> Change | None:
        shown = {"value": value, "last": int(value) - 1 if type(value) is int else 0}
        variables = dict(self.also)
        if self.setter == _ENVIRONMENT:
            before = environment.get(self.argument, "")
            if before == str(value):
                return None
            is_list = before and self.argument in _FLAG_LISTS
            variables[self.argument] = f"{before} {value}" if is_list else str(value)
        return Change(
            knob=self.id,
            setting=Setting(self.id, self.setter, self.argument, value),
            name=self.change.format(**shown),
            numerics=self.numerics,
            environment=tuple(variables.items()),
            write=tuple(line.format(**shown) for line in self.write),
        )


@cache
def load_knobs() -> tuple[Knob, ...]:
    """Return all knobs, in the order of their file."""
    text = Path(__file__).with_name("knobs.toml").read_text("utf-8")
    return msgspec.convert(tomllib.loads(text)["knob"], tuple[Knob, ...])


def knobs_for_rule(rule: str, frameworks: Collection[str]) -> tuple[Knob, ...]:
    """Return the knobs that answer a rule and fit the program."""
    return tuple(
        knob for knob in load_knobs() if rule in knob.rules and knob.fits(frameworks)
    )
