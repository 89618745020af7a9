"""What an API server answers when it refuses."""

from __future__ import annotations


class ApiError(Exception):
    """A refused request; the text is the API server's."""


class NotFoundError(ApiError):
    """There is no such object (404)."""


class AlreadyExistsError(ApiError):
    """An object of that name is there (409)."""


class ConflictError(ApiError):
    """The object was changed since it was read (409), or is another one of the same name."""


class ForbiddenError(ApiError):
    """Admission refuses the object (403), as a used-up quota does."""


class TooManyRequestsError(ApiError):
    """An eviction that a disruption budget does not allow now (429)."""
