"""What commands share with the server: see `stepscope.compose`."""

from __future__ import annotations

from stepscope.compose import LIMITS, STAGES, compose, describe, doubts, opened

__all__ = ["LIMITS", "STAGES", "compose", "describe", "doubts", "opened"]
