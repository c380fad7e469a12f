"""What the server refuses or cannot do: a status, a stable code, and one line."""

from __future__ import annotations

from stepscope.errors import StepscopeError


class Refused(StepscopeError):
    """A request without an answer.

    Attributes:
        status: Status of HTTP.
        code: Stable word for programs.
        retry_after_s: Seconds after which to ask again; None where that will not help.
    """

    def __init__(
        self, status: int, code: str, message: str, *, retry_after_s: int | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.retry_after_s = retry_after_s
