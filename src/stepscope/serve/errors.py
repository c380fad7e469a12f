"""Errors of the server: an HTTP status, a stable code, and one line of text."""

from __future__ import annotations

from stepscope.errors import StepscopeError


class Refused(StepscopeError):
    """Error that refuses a request.

    Attributes:
        status: HTTP status.
        code: Stable code for programs.
        retry_after_s: Seconds after which to try again; None if a retry is useless.
    """

    def __init__(
        self, status: int, code: str, message: str, *, retry_after_s: int | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.retry_after_s = retry_after_s
