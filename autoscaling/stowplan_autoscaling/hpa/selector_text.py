"""Label selectors as texts: "app=web,tier in (a,b)", and back to queries.

The scale of a workload carries its selector as a text, and the controller parses it at every sync; what it says about
a bad one ends up in a condition. Follows staging/src/k8s.io/apimachinery/pkg/labels/selector.go of Kubernetes v1.37.2.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from stowplan_scheduler.config.gotext import quote
from stowplan_scheduler.names import label_key_errors
from stowplan_scheduler.objects import (
    LabelSelector,
    LabelSelectorRequirement,
    NodeSelectorRequirement,
    NodeSelectorTerm,
)
from stowplan_scheduler.selectors import (
    DOES_NOT_EXIST,
    EXISTS,
    GREATER_THAN,
    IN,
    LESS_THAN,
    NOT_IN,
    LabelQuery,
    NodeTermQuery,
    Requirement,
    SelectorError,
)

_SPECIAL: Final = frozenset("=!(),><")
_SPACE: Final = frozenset(" \t\r\n")
_OPERATORS: Final = frozenset({")", ",", "!", "==", "=", ">", "in", "<", "!=", "notin", "("})
_END: Final = "end"
_WORD: Final = "word"
_WRONG: Final = "wrong"
_BINARY: Final = {
    "in": IN,
    "=": IN,
    "==": IN,
    ">": GREATER_THAN,
    "<": LESS_THAN,
    "notin": NOT_IN,
    "!=": NOT_IN,
}
_BINARY_TEXT: Final = "in, notin, =, ==, !=, gt, lt"

_Token = tuple[str, str]
"""Kind (_END, _WORD, _WRONG or the operator itself) and text."""


@lru_cache(maxsize=65536)
def parse_selector(text: str) -> LabelQuery:
    """The query of a selector's text; an empty text matches everything. Raises SelectorError."""
    return LabelQuery().and_requirements(_Parser(_tokens(text)).requirements())


def selector_text(selector: LabelSelector | None) -> str:
    """The text of a selector, which parse_selector reads (the String method of its query); "" for an empty one."""
    return ",".join(_requirement_text(requirement) for requirement in LabelQuery.of(selector).requirements)


def _requirement_text(requirement: Requirement) -> str:
    key, operator, values = requirement
    if operator == EXISTS:
        return key
    if operator == DOES_NOT_EXIST:
        return f"!{key}"
    if operator == IN:
        return f"{key}={values[0]}" if len(values) == 1 else f"{key} in ({','.join(values)})"
    if operator == NOT_IN:
        return f"{key} notin ({','.join(values)})"
    return f"{key}{'>' if operator == GREATER_THAN else '<'}{values[0]}"


def label_selector_text(selector: LabelSelector | None) -> str:
    """A LabelSelector as Go prints it in messages about external metrics."""
    if selector is None:
        return "nil"
    labels = "".join(f"{key}: {text}," for key, text in sorted(selector.match_labels.items()))
    expressions = "".join(f"{_expression_text(expression)}," for expression in selector.match_expressions)
    return (
        f"&LabelSelector{{MatchLabels:map[string]string{{{labels}}},"
        f"MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )


def _expression_text(expression: LabelSelectorRequirement) -> str:
    values = " ".join(expression.values)
    return f"LabelSelectorRequirement{{Key:{expression.key},Operator:{expression.operator},Values:[{values}],}}"


# ---- words ---------------------------------------------------------------------------------------------------------


def _tokens(text: str) -> list[_Token]:
    tokens: list[_Token] = []
    position = 0
    while position < len(text) and text[position] != "\0":
        if text[position] in _SPACE:
            position += 1
            continue
        start = position
        if text[position] in _SPECIAL:
            token, position = _special(text, position)
        else:
            while position < len(text) and text[position] not in _SPECIAL and text[position] not in _SPACE:
                position += 1
            word = text[start:position]
            token = (word if word in _OPERATORS else _WORD, word)
        tokens.append(token)
    tokens.append((_END, ""))
    return tokens


def _special(text: str, position: int) -> tuple[_Token, int]:
    """The longest run of symbols that is an operator."""
    found, buffer = "", ""
    while position < len(text) and text[position] in _SPECIAL:
        buffer += text[position]
        if buffer in _OPERATORS:
            found = buffer
        elif found:
            return (found, found), position
        position += 1
    if not found:
        return (_WRONG, f"error expected: keyword found '{buffer}'"), position
    return (found, found), position


# ---- sentences -----------------------------------------------------------------------------------------------------


class _Parser:
    """Reads requirements from tokens; raises SelectorError."""

    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = tokens
        self._position = 0

    def _peek(self) -> _Token:
        """The next token, where "in" and "notin" are words like others."""
        kind, text = self._tokens[self._position]
        return (_WORD if kind in {"in", "notin"} else kind), text

    def _take(self) -> _Token:
        token = self._peek()
        self._position += 1
        return token

    def requirements(self) -> list[Requirement]:
        found: list[Requirement] = []
        while True:
            kind, text = self._peek()
            if kind == _END:
                return found
            if kind not in {_WORD, "!"}:
                raise SelectorError([f"found '{text}', expected: !, identifier, or 'end of string'"])
            try:
                found.append(self._requirement())
            except SelectorError as error:
                raise SelectorError([f"unable to parse requirement: {error}"]) from error
            kind, text = self._take()
            if kind == _END:
                return found
            if kind != ",":
                raise SelectorError([f"found '{text}', expected: ',' or 'end of string'"])
            kind, text = self._peek()
            if kind not in {_WORD, "!"}:
                raise SelectorError([f"found '{text}', expected: identifier after ','"])

    def _requirement(self) -> Requirement:
        kind, key = self._take()
        absent = kind == "!"
        if absent:
            kind, key = self._take()
        if kind != _WORD:
            raise SelectorError([f"found '{key}', expected: identifier"])
        if bad := label_key_errors(key):
            raise SelectorError([f"<nil>: Invalid value: {quote(key)}: {'; '.join(bad)}"])
        if absent:
            return _checked(key, DOES_NOT_EXIST, ())
        if self._peek()[0] in {_END, ","}:
            return _checked(key, EXISTS, ())
        word = self._tokens[self._position][0]
        text = self._take()[1]
        operator = _BINARY.get(word)
        if operator is None:
            raise SelectorError([f"found '{text}', expected: {_BINARY_TEXT}"])
        values = self._set() if word in {"in", "notin"} else self._exact()
        return _checked(key, operator, tuple(sorted(values)))

    def _exact(self) -> set[str]:
        if self._peek()[0] in {_END, ","}:
            return {""}
        kind, text = self._take()
        if kind != _WORD:
            raise SelectorError([f"found '{text}', expected: identifier"])
        return {text}

    def _set(self) -> set[str]:
        kind, text = self._take()
        if kind != "(":
            raise SelectorError([f"found '{text}' expected: '('"])
        kind, text = self._peek()
        if kind == ")":
            self._take()
            return {""}
        if kind not in {_WORD, ","}:
            raise SelectorError([f"found '{text}', expected: ',', ')' or identifier"])
        values = self._members()
        self._take()
        return values

    def _members(self) -> set[str]:
        """Words between commas up to the closing parenthesis, which stays; nothing between two commas is ""."""
        values: set[str] = set()
        while True:
            kind, text = self._take()
            following, following_text = self._peek() if kind != _END else (_END, "")
            if kind == _WORD:
                values.add(text)
                if following == ")":
                    return values
                if following != ",":
                    raise SelectorError([f"found '{following_text}', expected: ',' or ')'"])
            elif kind == ",":
                if not values:
                    values.add("")
                if following in {")", ","}:
                    values.add("")
                if following == ")":
                    return values
            else:
                raise SelectorError([f"found '{text}', expected: ',', or identifier"])


def _checked(key: str, operator: str, values: tuple[str, ...]) -> Requirement:
    """The requirement, if its key and values are allowed."""
    expression = NodeSelectorRequirement(key=key, operator=operator, values=values)
    query = NodeTermQuery.of(NodeSelectorTerm(match_expressions=(expression,)))
    if query.errors:
        raise SelectorError([error.removeprefix("matchExpressions[0].") for error in query.errors])
    return query.labels[0]
