"""A rule, and its item of the checklist: its name, what it says, and what to change.

A rule makes its findings through its item, so that each carries the same name, title,
stage, doubts and actions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from stepscope.advice.finding import Action, Finding
from stepscope.advice.signals import NoVerdict
from stepscope.derive.facts.evidence import Fact
from stepscope.frozen import Frozen
from stepscope.remedies import Remedy
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepscope.advice.finding import Status
    from stepscope.advice.signals import Signals
    from stepscope.derive.facts.replaying.edits import Change
    from stepscope.derive.run_derivation import RunDerivation
    from stepscope.thresholds import Threshold, Thresholds


class Reason(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Why a rule has no verdict; names in braces stand for numbers.

    Attributes:
        code: A key of `CODES`.
        reason: One sentence that names the absent input.
        remedy: One sentence with one action, or the id of a remedy.
    """

    code: str
    reason: str
    remedy: str


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
        conditions: Key of an action → facts that must hold, besides its cause.
        groups: Actions that are advised together, by their keys; "default" holds those
            that a failing rule advises where it chooses none.
        worker_codes: Key of an action whose code says how many workers there are → the
            code with `{workers}` for the number, and the declared number.
        reasons: Why there is no verdict.
        units: Unit of each number worth showing.
        notes: What numbers were computed from, and what parts are called.
    """

    declared_actions: dict[str, Action] = msgspec.field(default={}, name="actions")
    conditions: dict[str, tuple[str, ...]] = {}
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

    def actions_for(self, *facts: str | None) -> tuple[Action, ...]:
        """Return the actions whose conditions hold, in the order of declaration.

        Args:
            facts: What holds: causes, kinds of programs, and what a rule has found out.
        """
        holding = {"any", *facts}
        return tuple(
            action
            for key, action in self.declared_actions.items()
            if action.cause in holding
            and holding.issuperset(self.conditions.get(key, ()))
        )

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
        if remedy is None and declared.remedy in Remedy.__members__:
            remedy = Remedy[declared.remedy]
        return Unavailable(
            code=declared.code,
            reason=declared.reason.format_map(numbers),
            remedy=remedy or declared.remedy,
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
        level: Names the thresholds `<level>_warn` and `<level>_critical`, from which
            on it is a finding, and a grave one; "" where it compares otherwise.
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
    level: str = ""
    explains: tuple[str, ...] = ()
    of_frameworks: bool = False
    collects: bool = False
    seen_on: str | None = None

    @property
    def is_calibrated(self) -> bool:
        """Return whether it has failed on a recorded program, or never fails."""
        return self.collects or self.seen_on is not None

    def levels(self, thresholds: Thresholds) -> tuple[Threshold, Threshold]:
        """Return the thresholds of a finding and of a grave one, which may be equal."""
        warn: Threshold = getattr(thresholds, f"{self.level}_warn")
        return warn, getattr(thresholds, f"{self.level}_critical", warn)

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
                "actions": self.chosen("default")
                if "default" in self.groups
                else self.actions_for(),
            }
            fields = own | fields
        else:
            for name in ("evidence", "actions"):
                fields.pop(name, None)
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


class Rule(Frozen, frozen=True, eq=True):
    """One rule; called, it gives its finding.

    Attributes:
        item: Its name, what it says, and what to change.
        judge: Computes the finding from signals and thresholds alone.
        reads: The signals that the rule asks for.
        change: Says what a failing finding would change about a step, for a replay;
            None where that follows from its owners, or nothing can be said.
    """

    item: Item
    judge: Callable[[Signals, Thresholds], Finding]
    reads: tuple[RunDerivation[Any], ...]
    change: Callable[[Signals, Thresholds], tuple[Change, ...]] | None = None

    def evaluate(self, signals: Signals, thresholds: Thresholds) -> Finding:
        """Return the finding, with or without a verdict."""
        try:
            return self.judge(signals, thresholds)
        except NoVerdict as absent:
            return self.item.finding(absent.status, unavailable=absent.why)

    __call__ = evaluate

    def changes(self, signals: Signals, thresholds: Thresholds) -> tuple[Change, ...]:
        """Return what mending it changes about a step; none where that is unknown."""
        try:
            return () if self.change is None else self.change(signals, thresholds)
        except NoVerdict:
            return ()


def rule(
    item: Item,
    *reads: RunDerivation[Any],
    change: Callable[[Signals, Thresholds], tuple[Change, ...]] | None = None,
) -> Callable[[Callable[[Signals, Thresholds], Finding]], Rule]:
    """Make a rule of the function that judges it."""

    def declare_rule(judge: Callable[[Signals, Thresholds], Finding]) -> Rule:
        return Rule(item, judge, tuple(dict.fromkeys(reads)), change)

    return declare_rule
