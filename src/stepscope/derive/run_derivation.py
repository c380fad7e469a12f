"""Derivations of the whole run, which are computed from the values of its hosts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeAlias, TypeVar

from stepscope.frozen import Frozen
from stepscope.unavailable import Unavailable

_Value = TypeVar("_Value")
_Value_co = TypeVar("_Value_co", covariant=True)

#: Host → its value, or the reason why it has no value.
OfHosts: TypeAlias = Mapping[str, _Value | Unavailable]


class RunDerivation(Frozen, Generic[_Value_co], frozen=True):
    """A value that is derived from all hosts of a run.

    Attributes:
        function: A pure function of keyword-only parameters. If `gather` is set, the
            function is called once per host, with the tables and derived values of that
            host. Otherwise the function is called once. A parameter named after a table
            or a derivation of hosts receives values by host, one named after a
            derivation of the run its value, and `profile` the `ProfileData`.
        gather: Combines the values of `function` by host into one value.
    """

    function: Callable[..., Any]
    gather: Callable[[OfHosts[Any]], _Value_co] | None = None

    @property
    def name(self) -> str:
        """Return the name by which other derivations request this one."""
        return self.function.__name__


def of_run(function: Callable[..., _Value]) -> RunDerivation[_Value]:
    """Declare a function of the values of all hosts."""
    return RunDerivation(function)


def of_each_host(
    function: Callable[..., _Value | Unavailable | None],
) -> RunDerivation[dict[str, _Value]]:
    """Declare a function of each host; the result has the values by host."""
    return RunDerivation(function, known_hosts)


def of_each_host_or_why(
    function: Callable[..., _Value | Unavailable | None],
) -> RunDerivation[dict[str, _Value] | Unavailable]:
    """Declare a function of each host; if none has a value, return a host's reason."""
    return RunDerivation(
        function, lambda values: known_hosts(values) or _reason_or_nothing(values)
    )


def of_each_device(
    function: Callable[..., Mapping[int | None, _Value] | Unavailable],
) -> RunDerivation[dict[str, _Value]]:
    """Declare a function with values by device; the result has them by `host:device`.

    For a host without devices, the device is None and the key is `host`.
    """
    return RunDerivation(function, _values_by_device)


def of_each_device_or_why(
    function: Callable[..., Mapping[int | None, _Value] | Unavailable],
) -> RunDerivation[dict[str, _Value] | Unavailable]:
    """Declare a function of devices; if no host has a value, return a host's reason."""
    return RunDerivation(
        function, lambda values: _values_by_device(values) or _reason_or_nothing(values)
    )


def known_hosts(values: Mapping[str, _Value | Unavailable | None]) -> dict[str, _Value]:
    """Return the values of the hosts that have a value."""
    return {
        host: value
        for host, value in values.items()
        if value is not None and not isinstance(value, Unavailable)
    }


def first_reason(values: OfHosts[Any]) -> Unavailable | None:
    """Return the reason of the first host without a value; None if all have one."""
    return next((why for why in values.values() if isinstance(why, Unavailable)), None)


def _reason_or_nothing(values: OfHosts[Any]) -> Unavailable | dict[str, Any]:
    return first_reason(values) or {}


def _values_by_device(
    values: OfHosts[Mapping[int | None, _Value]],
) -> dict[str, _Value]:
    return {
        host if device is None else f"{host}:{device}": value
        for host, devices in known_hosts(values).items()
        for device, value in devices.items()
    }
