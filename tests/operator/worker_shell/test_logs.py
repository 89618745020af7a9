"""Logs: one line per record, whatever tenants call their pods."""

from __future__ import annotations

import io
import json
import logging
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from stowplan_operator.worker.logs import STORY, JsonFormatter, StoryLog, TextFormatter, cleaned, set_up_logging
from stowplan_operator.worker.story import Moment, StoryRecord


@pytest.fixture(autouse=True)
def kept_logging() -> Iterator[None]:
    """What these tests set up is taken back."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:], root.level = handlers, level


def record(message: str, *args: object, **fields: Any) -> logging.LogRecord:
    made = logging.getLogger("stowplan.worker").makeRecord(
        "stowplan.worker", logging.INFO, "file", 1, message, args, None, extra=fields
    )
    made.created = 1_796_034_607.25
    return made


def moment(**fields: Any) -> StoryRecord:
    plain = {"seq": 1, "now": 5_000_000_000, "moment": Moment.BOUND, "pod": "shop/cart", "uid": "u", "node": "n1"}
    return StoryRecord(**{**plain, **fields})


def test_a_record_in_json_has_its_fields_apart_from_its_message() -> None:
    line = json.loads(JsonFormatter().format(record("the Lease is ours", epoch=3, holder="a")))
    assert line == {
        "ts": "2026-11-30T10:30:07.250000Z",
        "level": "info",
        "logger": "stowplan.worker",
        "msg": "the Lease is ours",
        "epoch": 3,
        "holder": "a",
    }


def test_a_record_as_text_is_one_line() -> None:
    text = TextFormatter().format(record("configuration refused", error="no such\nfile", empty=""))
    assert text == '2026-11-30T10:30:07.250000Z info    configuration refused error="no suchfile" empty=""'


def test_what_tenants_write_is_cleaned_and_cut() -> None:
    assert cleaned("a\x1b[31mb\nc\u202e") == "a[31mbc"
    assert cleaned("x" * 300) == "x" * 252 + " ..."
    line = json.loads(JsonFormatter().format(record("%s was refused", "evil\r\nname", error="y" * 5000)))
    assert line["msg"] == "evilname was refused"
    assert len(line["error"]) == 1024


def test_a_traceback_is_a_field_in_json() -> None:
    made = record("a plugin is broken")
    try:
        {"found": 1}["lost"]
    except KeyError:
        made.exc_info = sys.exc_info()
    line = json.loads(JsonFormatter().format(made))
    assert line["msg"] == "a plugin is broken: KeyError: 'lost'"
    assert line["traceback"].startswith("Traceback")


def test_moments_of_pods_have_the_form_of_the_other_logs() -> None:
    stream = io.StringIO()
    set_up_logging("json", "info", stream)
    story = StoryLog("json", stream, now=0)
    story.write(moment())
    assert stream.getvalue() == "", "moments are written together"
    story.flush()
    line = json.loads(stream.getvalue())
    assert (line["logger"], line["level"], line["msg"]) == (STORY, "info", "bound")
    assert (line["pod"], line["node"], line["moment"]) == ("shop/cart", "n1", "bound")


def test_moments_are_cleaned_and_cut_too() -> None:
    stream = io.StringIO()
    set_up_logging("json", "info", stream)
    story = StoryLog("json", stream, now=0)
    story.write(moment(message="\u001b]0;title" + "m" * 2000, node='quo"ted'))
    story.flush()
    line = json.loads(stream.getvalue())
    assert line["message"].startswith("]0;title")
    assert len(line["message"]) == 1024
    assert line["node"] == 'quo"ted'


def test_moments_as_text_name_what_matters() -> None:
    stream = io.StringIO()
    set_up_logging("text", "info", stream)
    story = StoryLog("text", stream, now=0)
    story.write(moment(message="two words"))
    story.flush()
    assert stream.getvalue().endswith('info    pod bound pod=shop/cart node=n1 message="two words"\n')


def test_moments_are_left_out_from_warning_on() -> None:
    stream = io.StringIO()
    set_up_logging("json", "warning", stream)
    story = StoryLog("json", stream, now=0)
    story.write(moment())
    story.flush()
    assert stream.getvalue() == ""
