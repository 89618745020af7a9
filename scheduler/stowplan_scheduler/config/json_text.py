"""JSON text to a tree, with repeated fields kept and Go's words for what is wrong.

Follows the scanner of Go's encoding/json (scanner.go): the text of a syntax error names the offending byte and what was
expected there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from .document import MAX_DEPTH, Members, Number
from .gotext import quote

_SPACE = re.compile(rb"[ \t\r\n]*")
_STRING_RUN = re.compile(rb'[^"\\\x00-\x1f]*')
_DIGITS = re.compile(rb"[0-9]*")
_LITERALS: dict[int, tuple[bytes, object]] = {
    ord("t"): (b"true", True),
    ord("f"): (b"false", False),
    ord("n"): (b"null", None),
}
_HEX = frozenset(b"0123456789abcdefABCDEF")
_ESCAPES = frozenset(b'bfnrt\\/"')


def parse_json(text: str) -> object:
    """The tree of a JSON text. Raises ValueError with the text of Go's syntax error."""
    return _Reader(text.encode("utf-8", "surrogatepass")).document()


def _end(pattern: re.Pattern[bytes], data: bytes, at: int) -> int:
    """Where the run of bytes that pattern describes ends; the patterns here also match nothing."""
    match = pattern.match(data, at)
    return match.end() if match else at


class _Reader:
    __slots__ = ("at", "data", "depth")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0
        self.depth = 0

    def document(self) -> object:
        value = self.value()
        self.skip_space()
        if self.at < len(self.data):
            raise self.error("after top-level value")
        return value

    def error(self, context: str) -> ValueError:
        if self.at >= len(self.data):
            return ValueError("unexpected end of JSON input")
        # Go converts the single byte to a character, so a byte of a longer UTF-8 sequence prints as Latin-1.
        char = chr(self.data[self.at])
        shown = {"'": r"'\''", '"': "'\"'"}.get(char) or f"'{quote(char)[1:-1]}'"
        return ValueError(f"invalid character {shown} {context}")

    def peek(self) -> int:
        return self.data[self.at] if self.at < len(self.data) else -1

    def skip_space(self) -> None:
        self.at = _end(_SPACE, self.data, self.at)

    def value(self) -> object:
        self.skip_space()
        char = self.peek()
        if char == ord("{"):
            return self.nested(self.members)
        if char == ord("["):
            return self.nested(self.elements)
        if char == ord('"'):
            return self.string()
        if char == ord("-") or ord("0") <= char <= ord("9"):
            return self.number()
        if char in _LITERALS:
            return self.literal(*_LITERALS[char])
        raise self.error("looking for beginning of value")

    def nested(self, read: Callable[[], object]) -> object:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.error("exceeded max depth")
        self.at += 1
        value = read()
        self.depth -= 1
        return value

    def members(self) -> Members:
        pairs: list[tuple[str, object]] = []
        self.skip_space()
        if self.accept("}"):
            return Members(pairs)
        while True:
            self.skip_space()
            if self.peek() != ord('"'):
                raise self.error("looking for beginning of object key string")
            name = self.string()
            self.skip_space()
            if not self.accept(":"):
                raise self.error("after object key")
            pairs.append((name, self.value()))
            self.skip_space()
            if self.accept("}"):
                return Members(pairs)
            if not self.accept(","):
                raise self.error("after object key:value pair")

    def elements(self) -> list[object]:
        values: list[object] = []
        self.skip_space()
        if self.accept("]"):
            return values
        while True:
            values.append(self.value())
            self.skip_space()
            if self.accept("]"):
                return values
            if not self.accept(","):
                raise self.error("after array element")

    def accept(self, char: str) -> bool:
        if self.peek() != ord(char):
            return False
        self.at += 1
        return True

    def string(self) -> str:
        start = self.at
        self.at += 1
        while True:
            self.at = _end(_STRING_RUN, self.data, self.at)
            if self.accept('"'):
                break
            if not self.accept("\\"):
                raise self.error("in string literal")
            self.escape()
        decoded = json.loads(self.data[start : self.at].decode("utf-8", "surrogatepass"))
        # Half a surrogate pair becomes U+FFFD, as in Go.
        return str(decoded).encode("utf-16", "surrogatepass").decode("utf-16", "replace")

    def escape(self) -> None:
        if self.peek() in _ESCAPES:
            self.at += 1
            return
        if not self.accept("u"):
            raise self.error("in string escape code")
        for _ in range(4):
            if self.peek() not in _HEX:
                raise self.error(r"in \u hexadecimal character escape")
            self.at += 1

    def number(self) -> Number:
        start = self.at
        self.accept("-")
        if not self.accept("0"):
            self.digits("in numeric literal")
        if self.accept("."):
            self.digits("after decimal point in numeric literal")
        if self.accept("e") or self.accept("E"):
            if not self.accept("+"):
                self.accept("-")
            self.digits("in exponent of numeric literal")
        return Number(self.data[start : self.at].decode())

    def digits(self, context: str) -> None:
        end = _end(_DIGITS, self.data, self.at)
        if end == self.at:
            raise self.error(context)
        self.at = end

    def literal(self, word: bytes, value: object) -> object:
        for char in word:
            if self.peek() != char:
                raise self.error(f"in literal {word.decode()} (expecting '{chr(char)}')")
            self.at += 1
        return value
