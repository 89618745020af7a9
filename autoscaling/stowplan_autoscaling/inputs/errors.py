"""Errors about input: one line that names the file, the object, the field and what is allowed."""

from __future__ import annotations

from stowplan_autoscaling.one_line import one_line


class FieldError(ValueError):
    """A field of an object that is being read is wrong. Whoever knows file and object makes an InputError of it."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}" if field else message)
        self.field = field
        self.message = message


class InputError(ValueError):
    """Input that cannot be used.

    `source` is the file and the place in it ("web.yaml: document 3"), `object` the kind and name ("Pod default/web"),
    `field` the path of the field ("spec.containers[0].image"). Each may be empty. `str()` is always a single line.
    """

    def __init__(self, source: str, object: str, field: str, message: str) -> None:
        self.source = one_line(source)
        self.object = one_line(object)
        self.field = one_line(field)
        self.message = one_line(message)
        super().__init__(": ".join(part for part in (self.source, self.object, self.field, self.message) if part))

    @classmethod
    def of(cls, source: str, object: str, error: FieldError) -> InputError:
        """The error about a field, now with its file and object."""
        return cls(source, object, error.field, error.message)


def shown(value: object, limit: int = 60) -> str:
    """A value of a document as the reader wrote it, cut to `limit` characters."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            text = f'"{value}"'
        case dict():
            return "a mapping"
        case list() | tuple():
            return "a list"
        case _:
            text = str(value)
    return text if len(text) <= limit else text[: limit - 4] + '..."'[: 4 if isinstance(value, str) else 3]
