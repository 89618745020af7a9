"""What an API server refuses, and that it does not answer, as exceptions with the server's own text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final


class ApiError(Exception):
    """A call that failed. `status` 0: no answer. `reason` is a metav1.StatusReason, or "".

    `retry_after`: seconds that the server asks to wait, None if it does not ask.
    """

    def __init__(self, status: int, reason: str, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.message = message
        self.retry_after = retry_after

    def __str__(self) -> str:
        return f"{self.status} {self.reason}: {self.message}" if self.reason else f"{self.status}: {self.message}"


class UnauthorizedError(ApiError):
    """The credential is missing, wrong or has expired (401)."""


class ForbiddenError(ApiError):
    """RBAC or admission refuses (403); also for about a second after a restart of the API server."""


class NotFoundError(ApiError):
    """There is no such object, or no such resource (404)."""


class ConflictError(ApiError):
    """The object is there already, was changed since it was read, or is another one of the same name (409)."""


class ExpiredError(ApiError):
    """The resource version, or the continue token, is too old (410): list again."""


class InvalidError(ApiError):
    """The object breaks a rule of its schema or of validation (422)."""


class TooManyRequestsError(ApiError):
    """Flow control, or an eviction that a disruption budget does not allow now (429)."""


class UnreachableError(ApiError):
    """No answer (status 0): it is not known whether the request was carried out."""

    def __str__(self) -> str:
        return self.message


_BY_STATUS: Final[Mapping[int, type[ApiError]]] = {
    0: UnreachableError,
    401: UnauthorizedError,
    403: ForbiddenError,
    404: NotFoundError,
    409: ConflictError,
    410: ExpiredError,
    422: InvalidError,
    429: TooManyRequestsError,
}


def error_for(status: int, reason: str, message: str, retry_after: float | None = None) -> ApiError:
    """The error of the class that the status stands for."""
    return _BY_STATUS.get(status, ApiError)(status, reason, message, retry_after)
