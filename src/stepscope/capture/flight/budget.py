"""Choice of the profiles that a flight recorder keeps: the worst ones, within limits.

Slow steps have a budget per hour, within which the worst steps are kept. Random
variation of step times thus cannot use up the budget for good. The budget does not
apply to hangs, exceptions and signals. All profiles share one limit of disk space.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

SLOW_STEP: Final = "slow step"
EXCEPTION: Final = "exception"
REQUESTED: Final = "asked for"
#: Period of the budget of slow steps, in seconds.
BUDGET_S: Final = 3600.0


class KeptProfile(NamedTuple):
    """A profile on the disk.

    Attributes:
        written_s: Time of writing, in seconds of a monotonic clock.
        lost_ns: Excess of a slow step's duration over the median, in ns; otherwise 0.
        files: The profile, and the profile of the steps after it, if there is one.
    """

    why: str
    written_s: float
    lost_ns: int
    files: tuple[Path, ...]

    def bytes_on_disk(self) -> int:
        """Return the size of the files in bytes; removed files count as 0."""
        sizes = []
        for path in self.files:
            with contextlib.suppress(OSError):
                sizes.append(path.stat().st_size)
        return sum(sizes)

    def remove_files(self) -> None:
        """Remove the files, and the folders of runs that become empty."""
        for path in self.files:
            with contextlib.suppress(OSError):
                path.unlink()
                path.parent.rmdir()


class Budget:
    """Profiles of one flight recorder on the disk, and limits for further profiles."""

    def __init__(self, *, slow_steps: int, disk_bytes: int) -> None:
        """Set the limits: slow steps per hour, and bytes of all profiles together."""
        self._slow_steps = slow_steps
        self._disk_bytes = disk_bytes
        self._profiles: list[KeptProfile] = []
        self._last_refusal_s: float | None = None

    def reason_against(self, cause: str, *, lost_ns: int, now_s: float) -> str | None:
        """Return why a profile must not be written; None if it is to be written.

        Profiles that the program requests or an exception causes are always written.
        """
        if cause in (REQUESTED, EXCEPTION):
            return None
        fixed_bytes = sum(
            profile.bytes_on_disk()
            for profile in self._profiles
            if not _may_go(profile)
        )
        if fixed_bytes >= self._disk_bytes:
            return f"profiles of dump() take {fixed_bytes:,} bytes (disk_bytes=…)"
        if cause == SLOW_STEP:
            recent = self._recent_slow_steps(now_s)
            if len(recent) >= self._slow_steps and lost_ns <= recent[0].lost_ns:
                return f"{len(recent)} worse steps of the last hour are kept (most=…)"
        return None

    def is_new_refusal(self, now_s: float) -> bool:
        """Return whether to log a refusal: only the first of each hour is logged."""
        last_s = self._last_refusal_s
        if last_s is not None and now_s - last_s < BUDGET_S:
            return False
        self._last_refusal_s = now_s
        return True

    def keep_profile(self, profile: KeptProfile) -> tuple[KeptProfile, ...]:
        """Add a profile that was written; return the profiles removed for it."""
        removed: list[KeptProfile] = []
        if profile.why == SLOW_STEP:
            recent = self._recent_slow_steps(profile.written_s)
            if len(recent) >= self._slow_steps:
                removed.append(recent[0])
                self._profiles.remove(recent[0])
                recent[0].remove_files()
        self._profiles.append(profile)
        return (*removed, *self._beyond_the_disk(spared=profile))

    def add_file(self, profile: Path, following: Path) -> tuple[KeptProfile, ...]:
        """Add the file of steps after a profile; return profiles removed for it."""
        for place, kept_profile in enumerate(self._profiles):
            if profile in kept_profile.files:
                extended = kept_profile._replace(files=(profile, following))
                self._profiles[place] = extended
                return self._beyond_the_disk(spared=extended)
        return ()

    def _recent_slow_steps(self, now_s: float) -> list[KeptProfile]:
        return _sorted_by_loss(
            profile
            for profile in self._profiles
            if profile.why == SLOW_STEP and now_s - profile.written_s < BUDGET_S
        )

    def _beyond_the_disk(self, *, spared: KeptProfile) -> tuple[KeptProfile, ...]:
        """Remove profiles above the disk limit: of slow steps first, then the oldest.

        Profiles that the program asked for are not removed.
        """
        used_bytes = sum(profile.bytes_on_disk() for profile in self._profiles)
        removed: list[KeptProfile] = []
        slow_steps = _sorted_by_loss(
            profile for profile in self._profiles if profile.why == SLOW_STEP
        )
        others = [profile for profile in self._profiles if profile.why != SLOW_STEP]
        for candidate in (*slow_steps, *others):
            if used_bytes <= self._disk_bytes:
                break
            if candidate != spared and _may_go(candidate):
                used_bytes -= candidate.bytes_on_disk()
                removed.append(candidate)
                self._profiles.remove(candidate)
                candidate.remove_files()
        return tuple(removed)


def _may_go(profile: KeptProfile) -> bool:
    return profile.why != REQUESTED


def _sorted_by_loss(profiles: Iterable[KeptProfile]) -> list[KeptProfile]:
    return sorted(profiles, key=lambda profile: (profile.lost_ns, profile.written_s))
