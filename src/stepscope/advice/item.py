"""A rule, and its item of the checklist: its name, what it says, and what to change.

A rule makes its findings through its item, so that each carries the same name, title,
stage, doubts and actions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from stepscope.advice.finding import Action, Finding
from stepscope.derive.facts.evidence import Fact
from stepscope.frozen import Frozen
from stepscope.remedies import Remedy
from stepscope.unavailable import Unavailable
from stepscope.units import PS_PER_US

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepscope.advice.finding import Status
    from stepscope.advice.signals import Signals
    from stepscope.advice.verdict import Verdict
    from stepscope.derive.facts.replaying.edits import Change
    from stepscope.derive.run_derivation import RunDerivation
    from stepscope.thresholds import Threshold, Thresholds

_US_PER_MS: Final = 1000


class Reason(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Why a rule has no verdict; names in braces stand for numbers.

    Attributes:
        code: A key of `CODES`.
        reason: One sentence that names the absent input.
        remedy: One sentence with one action, or the id of a remedy; None where the rule
            gives it.
    """

    code: str
    reason: str
    remedy: str | None = None


class Words(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The sentences of one rule; the numbers are filled in where findings are read out.

    A sentence may hold names in braces: the fields of `Finding` that are numbers, the
    title, the threshold, any fact by its name, and

    - `{passed}`: what is true when the rule passes;
    - `{named}`: the largest part by name, with file and line;
    - `{function}`: the same, known where it is a function that the steps call;
    - `{worker_function}`: the function that worker processes of the program are in;
    - `{cause}`: the largest cause, in words;
    - `{subject}`: the largest part, where a verb follows;
    - `{sleeper}`: that the largest part waits, and in what it calls;
    - `{elsewhere}`: what another thread of the program is in while the steps wait;
    - `{pattern}`: how a failing effect is spread over the steps, as a sentence;
    - `{bursts}`: the steps that wait, and how long each; known where the effect comes
      in bursts;
    - `{mostly_<cause>}`: the share of a cause; known where it is the largest.

    Each number is written in a fitting unit. `{value:nothing}` writes a zero as
    "nothing".

    Attributes:
        texts: "fail" or "pass", or one of these with a note ("fail_cores") → sentences,
            in order. Each is a tuple of alternatives, of which the first one whose
            numbers are all known is used; where none fits, it is left out.
        lead: Alternatives for the one sentence about a fail that a report begins with;
            without them it is the first sentence about the fail.
        passed: What is true when the rule passes.
        causes: Stable word of a cause or reason → the words that people read.
    """

    texts: dict[str, tuple[tuple[str, ...], ...]]
    lead: tuple[str, ...] = ()
    passed: str | None = None
    causes: dict[str, str] = {}

    def sentences(
        self, status: Status, note: str | None
    ) -> tuple[tuple[str, ...], ...]:
        """Return the sentences about a verdict; a note may have none of its own."""
        return self.texts.get(f"{status}_{note}", self.texts[status])


class Texts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Declared texts, each under a key.

    Attributes:
        declared_actions: What to change.
        groups: Actions that are advised together, by their keys; "default" holds those
            that a failing rule advises, which are all where it is not declared.
        worker_codes: Key of an action whose code says how many workers there are → the
            code with `{workers}` for the number, and the declared number.
        reasons: Why there is no verdict.
        units: Unit of each number worth showing.
        notes: What numbers were computed from, and what parts are called.
    """

    declared_actions: dict[str, Action] = msgspec.field(default={}, name="actions")
    groups: dict[str, tuple[str, ...]] = {}
    worker_codes: dict[str, tuple[str, int]] = {}
    reasons: dict[str, Reason] = {}
    units: dict[str, str] = msgspec.field(default={}, name="facts")
    notes: dict[str, str] = {}

    def __post_init__(self) -> None:
        """Put in the words of actions that are given by the id of a remedy."""
        for key, action in self.declared_actions.items():
            if action.text in Remedy.__members__:
                words = Remedy[action.text].value
                self.declared_actions[key] = msgspec.structs.replace(action, text=words)

    @property
    def actions(self) -> tuple[Action, ...]:
        """Return what to change when a rule fails, in the order of declaration."""
        return self.chosen(*self.groups.get("default", self.declared_actions))

    def actions_for(self, *causes: str | None) -> tuple[Action, ...]:
        """Return those of these actions that are against some causes."""
        return tuple(action for action in self.actions if action.cause in causes)

    def action(self, key: str, **words: str) -> Action:
        """Return one action, with words filled into its text where some are given."""
        action = self.declared_actions[key]
        if not words:
            return action
        return msgspec.structs.replace(action, text=action.text.format_map(words))

    def chosen(self, *keys: str) -> tuple[Action, ...]:
        """Return some actions, in the order of their keys and those of groups."""
        return tuple(
            self.declared_actions[one]
            for key in keys
            for one in self.groups.get(key, (key,))
        )

    def fact(
        self, key: str, value: float | None, *, note: str | None = None, **words: object
    ) -> Fact:
        """Return a number worth showing, in its declared unit.

        Args:
            note: What it was computed from, where the declared note does not say it.
            words: Words and numbers of the declared note.
        """
        if note is None and key in self.notes:
            note = self.note(key, **words)
        return Fact(name=key, value=value, unit=self.units[key], note=note)

    def facts(self, **numbers: float | None) -> tuple[Fact, ...]:
        """Return numbers worth showing, each in its declared unit."""
        return tuple(self.fact(key, value) for key, value in numbers.items())

    def reason(
        self, key: str, *, remedy: Remedy | None = None, **numbers: object
    ) -> Unavailable:
        """Return why there is no verdict, with its numbers filled in."""
        declared = self.reasons[key]
        told = declared.remedy or ""
        if told in Remedy.__members__:
            remedy = Remedy[told]
        return Unavailable(
            code=declared.code,
            reason=declared.reason.format_map(numbers),
            remedy=told if remedy is None else remedy,
        )

    def note(self, key: str, **numbers: object) -> str:
        """Return a note, with its numbers filled in."""
        return self.notes[key].format_map(numbers)


class Item(Texts, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One item of the checklist.

    Attributes:
        id: Stable name, `topic.matter`.
        stage: 0 capture, 1 input, 2 gaps, 3 device use, 4 placement and copies,
            5 kernels, 6 mixed precision, 7 compilation, 8 several devices, 9 memory
            and run.
        place: Its place in the order of the rules of its stage.
        module: Module of the rule below `advice/rules/`.
        title: What is the matter when it fails.
        about: What the rule looks for.
        words: The sentences about its findings.
        tools: Tools that show the numbers it rests on, the most useful first.
        confirm: How to confirm a fail.
        refute: What would prove a fail wrong.
        floors: Limits of the saving.
        explains: Ids of broader items whose time this one accounts for where it fails
            with most of theirs.
        of_frameworks: Whether it is about ops or memory of frameworks, so that a
            program without any has nothing that could fail.
        collects: Whether it only collects numbers, and never fails.
        seen_on: A recording on which it fails: a folder of the repository, a planted
            fault of the experiments ("experiment …") or a public profile ("public …").
            None where it has failed on made-up programs only: its thresholds are not
            proven, and every finding of it says so.
    """

    id: str
    stage: int
    place: int
    module: str
    title: str
    about: str
    words: Words
    tools: tuple[str, ...]
    confirm: str | None = None
    refute: str | None = None
    floors: tuple[str, ...] = ()
    explains: tuple[str, ...] = ()
    of_frameworks: bool = False
    collects: bool = False
    seen_on: str | None = None

    @property
    def is_calibrated(self) -> bool:
        """Return whether it has failed on a recorded program, or never fails."""
        return self.collects or self.seen_on is not None

    def finding(self, status: Status, **fields: Any) -> Finding:
        """Make a finding; only one that fails carries evidence, doubts and actions.

        Args:
            status: What the rule found.
            fields: Other fields of the finding; those given replace the item's own.
        """
        if status == "fail":
            own = {
                "confirm": self.confirm,
                "refute": self.refute,
                "floors": self.floors,
                "actions": self.actions,
            }
            fields = own | fields
        else:
            fields.pop("evidence", None)
        return Finding(
            id=self.id,
            title=self.title,
            stage=self.stage,
            calibrated=self.is_calibrated,
            status=status,
            **fields,
        )

    def cannot_tell(self, why: Unavailable | str, **numbers: object) -> Finding:
        """Make the finding of a rule whose inputs are not there.

        Args:
            why: The reason, or the key of a declared one.
        """
        return self._without_verdict("cannot_tell", why, numbers)

    def not_applicable(self, why: Unavailable | str, **numbers: object) -> Finding:
        """Make the finding of a rule whose topic is absent, with proof.

        Args:
            why: The reason, or the key of a declared one.
        """
        return self._without_verdict("not_applicable", why, numbers)

    def _without_verdict(
        self, status: Status, why: Unavailable | str, numbers: dict[str, Any]
    ) -> Finding:
        if isinstance(why, str):
            why = self.reason(why, **numbers)
        return self.finding(status, unavailable=why)

    def judged(
        self,
        verdict: Verdict,
        *,
        grade: float,
        threshold: Threshold,
        smallest: Threshold,
        stepped: bool = True,
        facts: tuple[Fact, ...] = (),
        note: str | None = None,
        **fields: Any,
    ) -> Finding:
        """Make the finding of a verdict about time per step.

        Args:
            verdict: What the steps say.
            grade: How far the record can be trusted, 0 to 1.
            threshold: The number that the share was compared with.
            smallest: The time below which it never fails.
            stepped: Whether there are steps that times can be given for.
            facts: Other numbers worth showing.
            note: What qualifies the verdict, where it is not the verdict's own note.
        """
        effect = verdict.effect_ms
        saves = verdict.status == "fail" and stepped
        own = {
            "severity": verdict.severity,
            "note": note or verdict.note,
            "confidence": min(verdict.confidence, grade),
            "value": verdict.share_percent,
            "share_percent": verdict.share_percent,
            "pattern": verdict.pattern,
            "ms_per_step": effect if stepped else None,
            "threshold": threshold,
            "steps_hit": verdict.pattern.steps_hit if stepped else None,
            "steps_clean": verdict.pattern.steps if stepped else None,
            "causes": verdict.causes,
            "facts": (
                *facts,
                Fact(name="effect", value=effect * _US_PER_MS, unit="us"),
                Fact(
                    name="smallest_effect",
                    value=smallest.value / PS_PER_US,
                    unit="us",
                ),
            ),
            "unavailable": verdict.unavailable,
            "saving_ms": verdict.pattern.promise(effect) if saves else None,
        }
        return self.finding(verdict.status, **(own | fields))


class Rule(Frozen, frozen=True, eq=True):
    """One rule.

    Attributes:
        item: Its name, what it says, and what to change.
        evaluate: Computes the finding from signals and thresholds alone.
        reads: The signals that the rule asks for.
        changes: Says what a failing finding would change about a step, for a replay;
            None where that follows from its owners, or nothing can be said.
    """

    item: Item
    evaluate: Callable[[Signals, Thresholds], Finding]
    reads: tuple[RunDerivation[Any], ...]
    changes: Callable[[Signals, Thresholds], tuple[Change, ...]] | None = None
