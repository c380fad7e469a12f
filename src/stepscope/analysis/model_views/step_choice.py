"""The steps that the options choose, on each host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope.analysis.ops.rows import NO_OPS
from stepscope.derive.steps.chosen import steps
from stepscope.errors import BadUsage
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepscope.analysis.options.model_views import Options
    from stepscope.derive.profile_data import ProfileData


def some_steps(options: Options) -> bool:
    """Return whether only some steps are asked for."""
    wanted = (options.step, options.step_name, options.last_steps)
    return any(one is not None for one in wanted)


def step_rows(
    profile: ProfileData, hosts: Sequence[str], options: Options
) -> dict[str, tuple[int, ...] | None] | Unavailable:
    """Return by host the rows of the steps asked for; None for everything.

    Raises:
        BadUsage: No host has such a step.
    """
    if not some_steps(options):
        return dict.fromkeys(hosts)
    if options.last_steps is not None and options.last_steps < 1:
        raise BadUsage(f"last_steps={options.last_steps} is no number of steps")
    marked = {name: _marked(profile, name) for name in hosts}
    if not any(marked.values()):
        why = profile.derived(hosts[0], steps)
        return why if isinstance(why, Unavailable) else NO_OPS
    found: dict[str, tuple[int, ...] | None] = {}
    for name, numbered in marked.items():
        rows = [
            row
            for row, (number, marker) in enumerate(numbered)
            if options.step in {None, number} and options.step_name in {None, marker}
        ]
        if rows:
            found[name] = tuple(rows[-(options.last_steps or len(rows)) :])
    if found:
        return found
    raise BadUsage(_no_such_step(options, marked))


def _no_such_step(
    options: Options, marked: dict[str, list[tuple[int, str | None]]]
) -> str:
    every = [step for steps in marked.values() for step in steps]
    if options.step_name is not None:
        names = sorted({marker for _, marker in every if marker is not None})
        listed = ", ".join(names) or "none; the steps were inferred"
        return f"no step is marked {options.step_name!r}; marks: {listed}"
    numbers = sorted(number for number, _ in every)
    return f"there is no step {options.step}; there are {numbers[0]} to {numbers[-1]}"


def _marked(profile: ProfileData, host: str) -> list[tuple[int, str | None]]:
    """Number and marker of each step of a host."""
    of_host = profile.derived(host, steps)
    if isinstance(of_host, Unavailable):
        return []
    found: list[tuple[int, str | None]] = of_host.rows.select("step", "marker").rows()
    return found


def step_numbers(
    profile: ProfileData, chosen: dict[str, tuple[int, ...] | None]
) -> dict[str, tuple[int, ...]]:
    """Return numbers of the steps that were chosen, by host."""
    numbers = {
        name: [number for number, _ in _marked(profile, name)] for name in chosen
    }
    return {
        name: tuple(numbers[name][row] for row in rows or ())
        for name, rows in chosen.items()
    }
