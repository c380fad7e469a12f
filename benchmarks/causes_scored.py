"""What a report said of generated programs, against what their clocks say is true.

Only data decides: ids of findings, owners, names of functions; never a sentence.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from causes_drawn import Law, Program, read_frameworks
from causes_truth import Truth
from judged_recordings import Advice, Said

Verdict = Literal["right", "partly", "silent", "wrong"]
AdviceVerdict = Literal["right", "partly", "none", "wrong"]
VERDICTS: tuple[Verdict, ...] = ("right", "partly", "silent", "wrong")
ADVICE_VERDICTS: tuple[AdviceVerdict, ...] = ("right", "partly", "none", "wrong")
#: A cause that takes less of the steps is too weak to ask for.
LEAST_SHARE = 0.1
#: Causes count as equal if one takes at least so much of the other's share.
NEAR_TIE = 0.8
#: Advice about the recording is about no step.
_RECORDING = ("capture.", "env.", "recording.")
#: Fewer steps are too few: a rule may say so.
_FEW_STEPS, _FEW_STEPS_RULE = 5, "capture.window"
#: A share that is told is right if it is so near to that of the program's clock.
NEAR_SHARE = 0.1
#: Causes of the finding on functions: they work, or they wait.
WORKS, WAITS = "functions", "waits"
#: What a report may blame where other programs take the cores.
CROWD = Law(
    name="crowded_machine",
    cause="other programs take the cores",
    position="operating system",
    slots=(),
    frameworks=(),
    amount="seconds",
    call="",
    functions=frozenset(),
    owners=frozenset({"sync"}),
    rules=frozenset({"cpu.threads", "gap.contention"}),
    advice=frozenset({"cpu.threads", "gap.contention"}),
    no_advice=frozenset(),
    enough=frozenset({"cpu.threads", "gap.contention", "sync"}),
    code_of={},
)


@dataclass(frozen=True)
class Cause:
    """A cause that was there, and its share of the steps by the program's own clock."""

    law: Law
    share: float


@dataclass(frozen=True)
class Scored:
    """A program, what is true of it, what was said, and how right that is.

    Attributes:
        program: The program.
        truth: What it wrote about itself.
        causes: Its causes, the largest first; those that are too weak are left out.
        said: What the report says.
        headline: How right the first sentence is.
        advice: How right the first advice is; None for a healthy program.
        is_weak: Whether something was planted, and all of it was too weak.
    """

    program: Program
    truth: Truth
    causes: tuple[Cause, ...]
    said: Said
    headline: Verdict
    advice: AdviceVerdict | None
    is_weak: bool

    @property
    def is_healthy(self) -> bool:
        """Whether nothing was planted."""
        return not self.program.planted

    @property
    def has_right_share(self) -> bool | None:
        """Whether the share of a cause is told rightly; None if none is told.

        It is that of its function, or of the whole finding where that is enough.
        """
        told = [share for one in self.causes for share in self._shares_told(one)]
        return any(near for near in told) if told else None

    def _shares_told(self, cause: Cause) -> list[bool]:
        said, law = self.said, cause.law
        percents = [
            percent for name, percent in said.shares.items() if name in law.functions
        ]
        if said.percent is not None and said.finding in law.enough:
            percents.append(said.percent)
        return [abs(it / 100 - cause.share) <= NEAR_SHARE for it in percents]

    @property
    def is_false_alarm(self) -> bool:
        """Whether a finding of a healthy program fails at a warning or above."""
        return self.is_healthy and self.headline == "wrong"


def score_program(program: Program, truth: Truth, said: Said) -> Scored:
    """Score what a report says of a program."""
    causes = causes_of(program, truth)
    is_weak = bool(program.planted) and all(one.law == CROWD for one in causes)
    if program.planted:
        headline = judge_headline(causes, said)
        advice = judge_advice(
            causes, said, read_frameworks()[program.framework]["label"]
        )
    else:
        alarms = false_alarms(causes, said, truth.steps)
        headline, advice = ("wrong" if alarms else "right"), None
    return Scored(program, truth, causes, said, headline, advice, is_weak)


def causes_of(program: Program, truth: Truth) -> tuple[Cause, ...]:
    """Return the causes that take enough of the steps.

    First the planted ones, the largest first, then the other programs of the machine.
    """
    planted = [
        Cause(one.law, truth.shares.get(one.law.name, 0.0)) for one in program.planted
    ]
    planted.sort(key=lambda one: -one.share)
    # A thread that takes the cores or the lock is the cause of that wait itself.
    is_beside = any(one.slot == "beside" for one in program.planted)
    crowd = [] if is_beside else [Cause(CROWD, truth.no_core)]
    return tuple(one for one in (*planted, *crowd) if one.share >= LEAST_SHARE)


def largest_share(causes: Iterable[Cause]) -> float:
    """Return the share of the largest planted cause: others may be named, or not."""
    return max((one.share for one in causes if one.law != CROWD), default=0.0)


def judge_headline(causes: Sequence[Cause], said: Said) -> Verdict:
    """Judge the first sentence of a program in which something is wrong.

    It is right where it is about the largest cause, or one that is as large, and names
    its function; partly right where it is about a smaller one, names no function, or
    names the function with another owner; silent where nothing is blamed.
    """
    matches = [(one.share, match_law(one.law, said)) for one in causes]
    largest = largest_share(causes)
    if any(
        found == "right" and share >= NEAR_TIE * largest for share, found in matches
    ):
        return "right"
    if any(found for _, found in matches):
        return "partly"
    return "wrong" if said.failing or said.finding else "silent"


def match_law(law: Law, said: Said) -> Literal["right", "partly"] | None:
    """Return how well the first sentence fits a cause; None if it is about another."""
    topic = _match_topic(law, said)
    is_named = names_function(law, said)
    is_enough = not law.enough.isdisjoint({said.finding, said.owner})
    misleads = said.finding in law.no_advice
    if topic == "right" and not misleads and (is_named or is_enough):
        return "right"
    # Without a finding "host compute" alone is nearly always true, and says nothing.
    is_told = topic == "right" and said.finding is not None and not misleads
    return "partly" if is_named or is_told or (topic and is_enough) else None


def names_function(law: Law, said: Said) -> bool:
    """Whether the first sentence is about the function of a cause."""
    return not law.functions.isdisjoint(said.functions)


def _match_topic(law: Law, said: Said) -> Literal["right", "partly"] | None:
    has_rule, has_owner = said.finding in law.rules, said.owner in law.owners
    if said.finding is None or said.owner is None:
        if has_rule or has_owner:
            return "right"
        return "partly" if said.owner in law.partly else None
    if has_rule and has_owner:
        return "right"
    return "partly" if has_rule or has_owner else None


def judge_advice(causes: Sequence[Cause], said: Said, framework: str) -> AdviceVerdict:
    """Judge the first advice of a program in which something is wrong.

    Args:
        causes: What is wrong with it, the largest cause first.
        said: What the report says.
        framework: How advice calls the program's framework.
    """
    advice = said.advice
    if advice is None or advice.cause is None or advice.rule.startswith(_RECORDING):
        return "none"
    if advice.framework not in {framework, "Python", "any"}:
        return "wrong"
    least = NEAR_TIE * largest_share(causes)
    verdicts = {
        (_advice_on(one.law, advice, said), one.share >= least) for one in causes
    }
    if ("right", True) in verdicts:
        return "right"
    is_half = any(verdict in {"right", "partly"} for verdict, _ in verdicts)
    return "partly" if is_half else "wrong"


def _advice_on(law: Law, advice: Advice, said: Said) -> AdviceVerdict:
    """Judge the advice of a rule as one about a single cause."""
    if advice.rule in law.no_advice or _mistakes_work(law, advice, said):
        return "wrong"
    if advice.rule not in law.advice:
        return "partly" if _is_about(law, advice, said) else "wrong"
    return "right" if _is_about(law, advice, said) else "partly"


def _mistakes_work(law: Law, advice: Advice, said: Said) -> bool:
    """Whether advice is about work where the loop waits, or about a wait where not."""
    if advice.rule != said.finding or law.waits is None:
        return False
    right, mistaken = (WAITS, WORKS) if law.waits else (WORKS, WAITS)
    return mistaken in said.causes and right not in said.causes


def _is_about(law: Law, advice: Advice, said: Said) -> bool:
    """Whether advice is known to be about the function of a law."""
    if advice.rule in law.enough:
        return True
    return advice.rule == said.finding and names_function(law, said)


def false_alarms(causes: Iterable[Cause], said: Said, steps: int) -> tuple[str, ...]:
    """Return the findings that fail although nothing is wrong with the program.

    Args:
        causes: What is wrong with the machine.
        said: What the report says.
        steps: Number of steps.
    """
    allowed = {rule for one in causes for rule in one.law.rules}
    if steps < _FEW_STEPS:
        allowed.add(_FEW_STEPS_RULE)
    return tuple(rule for rule in said.failing if rule not in allowed)


def count_scores(scored: Sequence[Scored]) -> list[tuple[str, str, str]]:
    """Return rows of a table: what was counted, its share, the counts."""
    faulty = [one for one in scored if not one.is_healthy and not one.is_weak]
    healthy = [one for one in scored if one.is_healthy]
    headlines = Counter(one.headline for one in faulty)
    advice = Counter(one.advice for one in faulty)
    alarms = sum(one.is_false_alarm for one in healthy)
    told = [one for one in faulty if one.headline == "right"]
    shares = [one.has_right_share for one in told if one.has_right_share is not None]
    return [
        (
            "first sentence right",
            _percent(headlines["right"], len(faulty)),
            ", ".join(f"{headlines[verdict]} {verdict}" for verdict in VERDICTS),
        ),
        (
            "first advice right",
            _percent(advice["right"], len(faulty)),
            ", ".join(f"{advice[verdict]} {verdict}" for verdict in ADVICE_VERDICTS),
        ),
        (
            "share right to 10 points, of right sentences",
            _percent(sum(shares), len(shares)),
            f"{sum(shares)} of {len(shares)}",
        ),
        (
            "healthy programs with a false alarm",
            _percent(alarms, len(healthy)),
            f"{alarms} of {len(healthy)}",
        ),
    ]


def _percent(count: int, total: int) -> str:
    return f"{100 * count / total:.0f} %" if total else "–"
