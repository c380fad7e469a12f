"""Plan of one turn, passed to the program's processes in an environment variable."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Environment variable that contains the plan.
VARIABLE: Final = "STEPSCOPE_TRY"

#: Value that a setter sets.
Value: TypeAlias = bool | int | str


class Setting(NamedTuple):
    """One knob as it is set in a turn.

    Attributes:
        knob: Id of the knob.
        setter: Name of the function that sets the knob, in `SETTERS`.
        argument: What the function sets, such as the name of a parameter.
    """

    knob: str
    setter: str
    argument: str
    value: Value


class TurnPlan(NamedTuple):
    """What each process of the program sets and measures.

    Attributes:
        folder: Folder to which each process writes a report.
        settings: Knobs to set; later ones are set after earlier ones.
        warm_steps: Steps before the window, which may compile or fill caches.
        warm_s: Seconds that these steps last at least, or there are twice as many.
        steps: Steps of the window, unless it reaches `max_s` first.
        least_s: Seconds that the window lasts at least.
        max_s: Seconds after which the window ends with the step in progress.
        watches_loss: Whether to note the losses of backward passes (PyTorch).
    """

    folder: str
    settings: tuple[Setting, ...] = ()
    warm_steps: int = 5
    warm_s: float = 0.2
    steps: int = 30
    least_s: float = 2.0
    max_s: float = 10.0
    watches_loss: bool = False

    def to_text(self) -> str:
        """Return the plan as JSON."""
        import json  # noqa: PLC0415 - keeps process startup fast

        return json.dumps(self._asdict())

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> TurnPlan | None:
        """Return the plan in the environment of this process; None without a plan."""
        text = environment.get(VARIABLE)
        if text is None:
            return None
        import json  # noqa: PLC0415 - keeps process startup fast

        fields = json.loads(text)
        fields["settings"] = tuple(Setting(*each) for each in fields["settings"])
        return cls(**fields)
