"""What a type checker knows of the public surface; mypy reads it, nothing runs it."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_type

import msgspec

import stepscope as ss
from stepscope.analysis.kernel_stats import KernelStatsResult
from stepscope.analysis.model_views import ModelViewsResult
from stepscope.derive.account.time_by_cause import Account, account
from stepscope.derive.steps.chosen import Steps, steps

if TYPE_CHECKING:
    from stepscope.derive.profile_data import ProfileData


def check_a_derivation_has_the_type_that_its_function_returns(
    profile: ProfileData,
) -> None:
    assert_type(profile.derived("vm", account), Account | ss.Unavailable)
    # The function itself returns `Steps | Unavailable`.
    assert_type(profile.derived("vm", steps), Steps | ss.Unavailable)


def check_a_tool_has_the_type_of_its_result(profile: ss.ProfileData) -> None:
    assert_type(profile.tool("kernel_stats"), KernelStatsResult | ss.Unavailable)
    assert_type(profile.tool("kernels"), KernelStatsResult | ss.Unavailable)
    result = profile.tool("model_views", view="op")
    assert_type(result, ModelViewsResult | ss.Unavailable)


def check_a_tool_whose_name_is_not_known_yet(name: str) -> None:
    result = ss.open("logs").tool(name)
    assert_type(result, msgspec.Struct | ss.Unavailable)


def check_that_choosing_hosts_keeps_the_tools() -> None:
    chosen = ss.open("logs").select(["vm"])
    assert_type(chosen.tool("kernel_stats"), KernelStatsResult | ss.Unavailable)
