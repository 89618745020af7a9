"""Texts as Go's standard library writes and reads them: quoted strings, durations, JSON.

Upstream's error texts contain values printed by Go (`%q`, `json.Marshal`, `time.Duration.String`). Operators search for
these texts, so they are reproduced to the letter. Follows strconv/quote.go, time/format.go, encoding/json/encode.go of
Go 1.26.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping

NANOSECOND = 1
MICROSECOND = 1000 * NANOSECOND
MILLISECOND = 1000 * MICROSECOND
SECOND = 1000 * MILLISECOND
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
MAX_INT64 = (1 << 63) - 1

_UNITS = {
    "ns": NANOSECOND,
    "us": MICROSECOND,
    "µs": MICROSECOND,
    "μs": MICROSECOND,  # Greek mu besides the micro sign: Go takes both
    "ms": MILLISECOND,
    "s": SECOND,
    "m": MINUTE,
    "h": HOUR,
}
_SIMPLE_ESCAPES = {
    "\a": r"\a", "\b": r"\b", "\f": r"\f", "\n": r"\n", "\r": r"\r", "\t": r"\t", "\v": r"\v", "\\": "\\\\", '"': r"\"",
}  # fmt: skip
_DURATION_PART = re.compile(r"([0-9]*)(\.?)([0-9]*)([^0-9.]*)")


def quote(text: str) -> str:
    """`strconv.Quote`: a double-quoted Go string literal."""
    return '"' + "".join(map(_quote_char, text)) + '"'


def _quote_char(char: str) -> str:
    if char in _SIMPLE_ESCAPES:
        return _SIMPLE_ESCAPES[char]
    if char.isprintable():
        return char
    code = ord(char)
    if code < 0x20 or code == 0x7F:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def json_string(text: str) -> str:
    """A JSON string as `json.Marshal` writes it."""
    return escape_html(json.dumps(text, ensure_ascii=False))


def escape_html(encoded: str) -> str:
    """JSON with the characters escaped that mean something in HTML or JavaScript: they stand in strings only."""
    for char in "<>&\u2028\u2029":
        encoded = encoded.replace(char, f"\\u{ord(char):04x}")
    return encoded


def json_float(value: float) -> str:
    """A float64 as `json.Marshal` writes it: shortest digits, an exponent only beyond 1e-6 and 1e21."""
    if value == 0:
        return "-0" if math.copysign(1, value) < 0 else "0"
    digits = repr(value)
    if 1e-6 <= abs(value) < 1e21:
        return _plain_decimal(digits)
    mantissa, _, exponent = digits.partition("e")
    mantissa = mantissa.removesuffix(".0")
    sign, number = exponent[:1], exponent.lstrip("+-").lstrip("0")
    return f"{mantissa}e{'-' if sign == '-' else '+'}{number.rjust(1 if sign == '-' else 2, '0')}"


def _plain_decimal(digits: str) -> str:
    """The digits of a shortest representation without its exponent, filled up with zeros."""
    mantissa, _, exponent = digits.partition("e")
    if not exponent:
        return digits.removesuffix(".0")
    sign, mantissa = ("-", mantissa[1:]) if mantissa.startswith("-") else ("", mantissa)
    whole, _, fraction = mantissa.partition(".")
    point = len(whole) + int(exponent)
    significant = whole + ("" if fraction == "0" else fraction)
    if point <= 0:
        return f"{sign}0.{'0' * -point}{significant}"
    return sign + significant.ljust(point, "0")


def json_value(value: object) -> str:
    """Compact JSON of plain values as Go writes it; mappings keep their order, as structs and raw messages do."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json_string(value)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return json_float(value)
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{json_string(str(k))}:{json_value(v)}" for k, v in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(map(json_value, value)) + "]"
    raise TypeError(f"{type(value).__name__} is no JSON value")


def format_duration(nanoseconds: int) -> str:
    """`time.Duration.String`: 10000000000 is "10s", 90 seconds are "1m30s", a millisecond and a half is "1.5ms"."""
    if nanoseconds == 0:
        return "0s"
    sign, rest = ("-", -nanoseconds) if nanoseconds < 0 else ("", nanoseconds)
    if rest < SECOND:
        unit, size = (
            ("ns", 1) if rest < MICROSECOND else ("µs", MICROSECOND) if rest < MILLISECOND else ("ms", MILLISECOND)
        )
        return sign + _decimal(rest, size) + unit
    hours, rest = divmod(rest, HOUR)
    minutes, rest = divmod(rest, MINUTE)
    prefix = f"{hours}h{minutes}m" if hours else f"{minutes}m" if minutes else ""
    return f"{sign}{prefix}{_decimal(rest, SECOND)}s"


def _decimal(value: int, size: int) -> str:
    whole, rest = divmod(value, size)
    fraction = f"{rest:0{len(str(size)) - 1}d}".rstrip("0") if rest else ""
    return f"{whole}.{fraction}" if fraction else str(whole)


def parse_duration(text: str) -> int:
    """`time.ParseDuration`: nanoseconds. Raises ValueError with Go's text."""
    rest, negative = text, False
    if rest[:1] in {"-", "+"} and rest:
        negative, rest = rest[0] == "-", rest[1:]
    if rest == "0":
        return 0
    if not rest:
        raise ValueError(f"time: invalid duration {quote(text)}")
    total = 0
    while rest:
        part = _DURATION_PART.match(rest)
        if part is None or not (part[1] or part[3]):
            raise ValueError(f"time: invalid duration {quote(text)}")
        total += _duration_part(part[1], part[3], part[4], text)
        if total > MAX_INT64 + negative:
            raise ValueError(f"time: invalid duration {quote(text)}")
        rest = rest[part.end() :]
    return -total if negative else total


def _duration_part(whole: str, fraction: str, unit: str, text: str) -> int:
    if not unit:
        raise ValueError(f"time: missing unit in duration {quote(text)}")
    if unit not in _UNITS:
        raise ValueError(f"time: unknown unit {quote(unit)} in duration {quote(text)}")
    size = _UNITS[unit]
    value = int(whole or "0") * size
    if fraction:
        # The same float64 operations as upstream, so that the last nanosecond agrees.
        digits = fraction[:18]
        value += int(float(int(digits)) * (float(size) / 10.0 ** len(digits)))
    return value
