"""Which profiles a flight recorder writes and keeps: the worst, within bounds.

Slow steps have a budget by time, which noise cannot use up for good: of each hour the
worst are kept. Hangs, exceptions and signals are outside of it. The disk has one bound
for all.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

SLOW_STEP: Final = "slow step"
EXCEPTION: Final = "exception"
ASKED_FOR: Final = "asked for"
#: A budget of slow steps is for so long.
BUDGET_S: Final = 3600.0


class KeptProfile(NamedTuple):
    """A profile on the disk.

    Attributes:
        written_s: When, in seconds of a clock that only rises.
        lost_ns: What a slow step took longer than the median; 0 of all others.
        files: The profile, and that of the steps after it where there is one.
    """

    why: str
    written_s: float
    lost_ns: int
    files: tuple[Path, ...]

    def bytes_on_disk(self) -> int:
        """Return what its files take; files that others removed take nothing."""
        sizes = []
        for path in self.files:
            with contextlib.suppress(OSError):
                sizes.append(path.stat().st_size)
        return sum(sizes)

    def remove_files(self) -> None:
        """Remove its files, and the folders of runs that are empty without them."""
        for path in self.files:
            with contextlib.suppress(OSError):
                path.unlink()
                path.parent.rmdir()


class Budget:
    """The profiles that one flight recorder has on the disk, and what else may come."""

    def __init__(self, *, slow_steps: int, disk_bytes: int) -> None:
        """Allow this many slow steps an hour, and this many bytes of all profiles."""
        self._slow_steps = slow_steps
        self._disk_bytes = disk_bytes
        self._kept: list[KeptProfile] = []
        self._last_refusal_s: float | None = None

    def reason_against(self, why: str, *, lost_ns: int, now_s: float) -> str | None:
        """Return why a profile is not to be written; None where it is to be.

        What the program asks for, and what ends it, is written in any case.
        """
        if why in (ASKED_FOR, EXCEPTION):
            return None
        fixed = sum(it.bytes_on_disk() for it in self._kept if not _may_go(it))
        if fixed >= self._disk_bytes:
            return f"what dump() wrote takes {fixed:,} bytes (disk_bytes=…)"
        if why == SLOW_STEP:
            recent = self._recent_slow_steps(now_s)
            if len(recent) >= self._slow_steps and lost_ns <= recent[0].lost_ns:
                return f"{len(recent)} worse ones of the last hour are kept (most=…)"
        return None

    def is_new_refusal(self, now_s: float) -> bool:
        """Return whether a refusal is to be said: the first of an hour is."""
        last_s = self._last_refusal_s
        if last_s is not None and now_s - last_s < BUDGET_S:
            return False
        self._last_refusal_s = now_s
        return True

    def keep_profile(self, profile: KeptProfile) -> tuple[KeptProfile, ...]:
        """Take in a profile that was written; return those that were removed for it."""
        removed: list[KeptProfile] = []
        if profile.why == SLOW_STEP:
            recent = self._recent_slow_steps(profile.written_s)
            if len(recent) >= self._slow_steps:
                removed.append(recent[0])
                self._kept.remove(recent[0])
                recent[0].remove_files()
        self._kept.append(profile)
        return (*removed, *self._beyond_the_disk(spared=profile))

    def add_file(self, profile: Path, following: Path) -> tuple[KeptProfile, ...]:
        """Take in the steps after a profile; return what was removed for them."""
        for place, kept in enumerate(self._kept):
            if profile in kept.files:
                both = kept._replace(files=(profile, following))
                self._kept[place] = both
                return self._beyond_the_disk(spared=both)
        return ()

    def _recent_slow_steps(self, now_s: float) -> list[KeptProfile]:
        return _least_bad_first(
            it
            for it in self._kept
            if it.why == SLOW_STEP and now_s - it.written_s < BUDGET_S
        )

    def _beyond_the_disk(self, *, spared: KeptProfile) -> tuple[KeptProfile, ...]:
        """Give up what does not fit: slow steps first, then the oldest of the others.

        What the program asked for stays.
        """
        taken = sum(it.bytes_on_disk() for it in self._kept)
        given_up: list[KeptProfile] = []
        slow_steps = _least_bad_first(it for it in self._kept if it.why == SLOW_STEP)
        others = [it for it in self._kept if it.why != SLOW_STEP]
        for candidate in (*slow_steps, *others):
            if taken <= self._disk_bytes:
                break
            if candidate != spared and _may_go(candidate):
                taken -= candidate.bytes_on_disk()
                given_up.append(candidate)
                self._kept.remove(candidate)
                candidate.remove_files()
        return tuple(given_up)


def _may_go(profile: KeptProfile) -> bool:
    return profile.why != ASKED_FOR


def _least_bad_first(profiles: Iterable[KeptProfile]) -> list[KeptProfile]:
    return sorted(profiles, key=lambda it: (it.lost_ns, it.written_s))
