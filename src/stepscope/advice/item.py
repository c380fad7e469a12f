"""A rule, and its item of the checklist: its name, its sentences and its actions.

A rule creates its findings with its item, so that all findings of the rule have the
same name, title, stage, doubts and actions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from stepscope.advice.finding import Action, Finding
from stepscope.advice.signals import NoVerdict
from stepscope.derive.facts.evidence import Fact
from stepscope.frozen import Frozen
from stepscope.remedies import Remedy
from stepscope.thresholds import THRESHOLDS
from stepscope.unavailable import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepscope.advice.finding import Status
    from stepscope.advice.signals import Signals
    from stepscope.derive.facts.savings.what_if_changes import Changes
    from stepscope.derive.run_derivation import RunDerivation
    from stepscope.thresholds import Threshold


class Reason(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Why a rule has no verdict; names in braces stand for numbers.

    Attributes:
        code: A key of `CODES`.
        reason: One sentence that names the missing input.
        remedy: One sentence with one action, or the id of a remedy.
    """

    code: str
    reason: str
    remedy: str


class Combination(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True
):
    """Versions that together are slow or wrong, as their vendor documents.

    Attributes:
        versions: Library → first affected version, and the first later one that is not;
            a name stands for the version of that library.
        events: Pattern of an event's name that shows that the program is affected.
        source: Address of the documentation.
    """

    versions: dict[str, tuple[tuple[int, ...], tuple[int, ...] | str]]
    events: str
    source: str


class Sentences(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The sentences of one rule; numbers are inserted when findings are written.

    A sentence may contain names in braces: the numeric fields of `Finding`, the title,
    the threshold, any fact by its name, and

    - `{passed}`: what is true when the rule passes;
    - `{of_step}`, `{the_step}`, `{the_steps}`: "of the step", "the step", "the steps";
      for a share of the recording "of the recording" and "the program";
    - `{named}`: the largest part by name, with file and line;
    - `{function}`: the largest part, if it is a function that the steps call;
    - `{worker_function}`: the function that worker processes of the program run;
    - `{cause}`: the largest cause, in words;
    - `{reason}`: the first of the reasons (`because`), in words;
    - `{subject}`: the largest part, if a verb follows;
    - `{sleeper}`: that the largest part waits, and in which call;
    - `{elsewhere}`: what another thread of the program runs while the steps wait;
    - `{pattern}`: how the lost time is distributed over the steps, as a sentence;
    - `{bursts}`: the steps that wait, and how long each; known for bursts;
    - `{epoch}`: how often bursts in the first step of each epoch come; known for these;
    - `{mostly_<cause>}`: the share of a cause; known if it is the largest cause.

    Numbers have a suitable unit. `{value:nothing}` writes a zero as "nothing".

    Attributes:
        texts: Sentences in order, by "fail" or "pass", or by one of these with a note
            ("fail_cores"). Each sentence is a tuple of alternatives: the first one
            whose numbers are all known is used, or none.
        lead: Alternatives for the headline about a fail; if there are none, the
            headline is the first sentence about the fail.
        passed: What is true when the rule passes.
        title_of_recording: The title if shares are those of the recording.
        causes: Displayed words by identifier of a cause or reason.
    """

    texts: dict[str, tuple[tuple[str, ...], ...]]
    lead: tuple[str, ...] = ()
    passed: str | None = None
    title_of_recording: str | None = None
    causes: dict[str, str] = {}

    def sentences(
        self, status: Status, note: str | None
    ) -> tuple[tuple[str, ...], ...]:
        """Return the sentences for a verdict with a note, else for the verdict."""
        return self.texts.get(f"{status}_{note}", self.texts[status])


class Texts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Declared texts, each with a key.

    Attributes:
        declared_actions: What to change.
        conditions: By key of an action: facts that must hold in addition to its cause.
        compiling: Keys of actions that compile the program, which may need memory.
        groups: Keys of actions that are advised together; "default" has the actions of
            a failing rule that chooses none.
        worker_codes: By key of an action: its code with `{workers}` in place of the
            number of workers, and the declared number.
        reasons: Why there is no verdict.
        units: Unit of each fact.
        notes: What the facts are computed from, and names of parts.
    """

    declared_actions: dict[str, Action] = msgspec.field(default={}, name="actions")
    conditions: dict[str, tuple[str, ...]] = {}
    compiling: tuple[str, ...] = ()
    groups: dict[str, tuple[str, ...]] = {}
    worker_codes: dict[str, tuple[str, int]] = {}
    reasons: dict[str, Reason] = {}
    units: dict[str, str] = msgspec.field(default={}, name="facts")
    notes: dict[str, str] = {}

    def __post_init__(self) -> None:
        """Replace the ids of remedies by the texts of the remedies."""
        for key, action in self.declared_actions.items():
            if action.text in Remedy.__members__:
                text = Remedy[action.text].value
                self.declared_actions[key] = msgspec.structs.replace(action, text=text)

    def actions_for(self, *facts: str | None) -> tuple[Action, ...]:
        """Return the actions whose conditions hold, in the order of declaration.

        Args:
            facts: Facts that hold: causes, kinds of programs, and results of a rule.
        """
        holding = {"any", *facts}
        return tuple(
            action
            for key, action in self.declared_actions.items()
            if action.cause in holding
            and holding.issuperset(self.conditions.get(key, ()))
        )

    def action(self, key: str, **names: str) -> Action:
        """Return one action, with the given words inserted into its text."""
        action = self.declared_actions[key]
        if not names:
            return action
        return msgspec.structs.replace(action, text=action.text.format_map(names))

    def chosen(self, *keys: str) -> tuple[Action, ...]:
        """Return the actions of the given keys and groups, in order."""
        return tuple(
            self.declared_actions[name]
            for key in keys
            for name in self.groups.get(key, (key,))
        )

    def fact(
        self, key: str, value: float | None, *, note: str | None = None, **names: object
    ) -> Fact:
        """Return a fact in its declared unit.

        Args:
            note: What the number is computed from; replaces the declared note.
            names: Words and numbers to insert into the declared note.
        """
        if note is None and key in self.notes:
            note = self.note(key, **names)
        return Fact(name=key, value=value, unit=self.units[key], note=note)

    def facts(self, **numbers: float | None) -> tuple[Fact, ...]:
        """Return facts, each in its declared unit."""
        return tuple(self.fact(key, value) for key, value in numbers.items())

    def reason(
        self, key: str, *, remedy: Remedy | None = None, **numbers: object
    ) -> Unavailable:
        """Return why there is no verdict, with numbers inserted."""
        declared = self.reasons[key]
        if remedy is None and declared.remedy in Remedy.__members__:
            remedy = Remedy[declared.remedy]
        return Unavailable(
            code=declared.code,
            reason=declared.reason.format_map(numbers),
            remedy=remedy or declared.remedy,
        )

    def note(self, key: str, **numbers: object) -> str:
        """Return a note, with numbers inserted."""
        return self.notes[key].format_map(numbers)


class Item(Texts, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One item of the checklist.

    Attributes:
        id: Stable name, `topic.matter`.
        stage: 0 capture, 1 input, 2 gaps, 3 device use, 4 placement and copies, 5
            kernels, 6 precision, 7 compilation, 8 several devices, 9 memory and run.
        place: Position among the rules of its stage.
        module: Module of the rule below `advice/rules/`.
        title: The problem when the rule fails.
        about: What the rule looks for.
        words: The sentences about its findings.
        tools: Tools that show the rule's numbers, the most useful first.
        confirm: How to confirm that the problem exists.
        refute: What would prove that the problem does not exist.
        floors: What limits the saving.
        level: Prefix of the names of two thresholds, `<level>_warn` for a fail and
            `<level>_critical` for a critical fail; "" if it has no such thresholds.
        explains: Ids of broader items whose time this item explains if it fails with
            most of their time.
        of_frameworks: Whether the item is about ops or memory of frameworks, and does
            not apply to a program without a framework.
        collects: Whether the item only collects numbers, and never fails.
        ends_program: Whether the item is about a failure that ends the program if it is
            critical; such a finding is the headline.
        of_late_worker: Whether the item says which worker the other workers wait for.
        combinations: Combinations of versions that the rule knows, by reason.
        seen_on: A recording on which the rule fails: a folder of the repository, a test
            file that records it, a planted fault of the experiments ("experiment …") or
            a public profile ("public …"). None if the rule has failed on synthetic
            profiles only: its thresholds are unproven, and all its findings say so.
    """

    id: str
    stage: int
    place: int
    module: str
    title: str
    about: str
    words: Sentences
    tools: tuple[str, ...]
    confirm: str | None = None
    refute: str | None = None
    floors: tuple[str, ...] = ()
    level: str = ""
    explains: tuple[str, ...] = ()
    of_frameworks: bool = False
    collects: bool = False
    ends_program: bool = False
    of_late_worker: bool = False
    combinations: dict[str, Combination] = {}
    seen_on: str | None = None

    @property
    def is_calibrated(self) -> bool:
        """Whether the rule has failed on a recorded program, or never fails."""
        return self.collects or self.seen_on is not None

    @property
    def levels(self) -> tuple[Threshold, Threshold]:
        """Return the thresholds for a fail and a critical fail, which may be equal."""
        warn: Threshold = getattr(THRESHOLDS, f"{self.level}_warn")
        return warn, getattr(THRESHOLDS, f"{self.level}_critical", warn)

    def finding(self, status: Status, **fields: Any) -> Finding:
        """Return a finding; evidence, doubts and actions are kept only for a fail.

        Args:
            status: The verdict of the rule.
            fields: Other fields of the finding; they replace the item's fields.
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
        """Return the finding of a rule whose inputs are missing, given the reason."""
        return self._without_verdict("cannot_tell", why, numbers)

    def not_applicable(self, why: Unavailable | str, **numbers: object) -> Finding:
        """Return the finding of a rule whose subject does not exist in the program."""
        return self._without_verdict("not_applicable", why, numbers)

    def _without_verdict(
        self, status: Status, why: Unavailable | str, numbers: dict[str, Any]
    ) -> Finding:
        """Return a finding with a reason, or with the declared reason of a key."""
        if isinstance(why, str):
            why = self.reason(why, **numbers)
        return self.finding(status, unavailable=why)


class Rule(Frozen, frozen=True, eq=True):
    """One rule; a call of the rule returns its finding.

    Attributes:
        item: Its name, sentences and actions.
        judge: Computes the finding from signals and thresholds alone.
        reads: The signals that the rule reads.
        change: Returns how a step would change without the problem, for a replay; None
            if the finding's causes of time determine the change, or it is unknown.
    """

    item: Item
    judge: Callable[[Signals], Finding]
    reads: tuple[RunDerivation[Any], ...]
    change: Callable[[Signals], Changes] | None = None

    def evaluate(self, signals: Signals) -> Finding:
        """Return the finding, with or without a verdict."""
        try:
            return self.judge(signals)
        except NoVerdict as absent:
            return self.item.finding(absent.status, unavailable=absent.why)

    __call__ = evaluate

    def changes(self, signals: Signals) -> Changes:
        """Return how a step changes if the problem is fixed; () if unknown."""
        try:
            return () if self.change is None else self.change(signals)
        except NoVerdict:
            return ()


def rule(
    item: Item,
    *reads: RunDerivation[Any],
    change: Callable[[Signals], Changes] | None = None,
) -> Callable[[Callable[[Signals], Finding]], Rule]:
    """Return a decorator that turns a judging function into a rule."""

    def declare_rule(judge: Callable[[Signals], Finding]) -> Rule:
        return Rule(item, judge, tuple(dict.fromkeys(reads)), change)

    return declare_rule
