"""Log lines as JSON, and how much is said."""

from __future__ import annotations

import json
import logging
import sys

import pytest

from tidelog.config import BrokerConfig
from tidelog.errors import InvalidConfig
from tidelog.logs import JsonFormatter, SparingLog, parse_levels, request_id


def record(message: str, *args: object, problem: bool = False) -> logging.LogRecord:
    try:
        if problem:
            raise KeyError("what")
    except KeyError:
        return logging.LogRecord("tidelog.storage", logging.ERROR, "", 0, message, args, sys.exc_info())
    return logging.LogRecord("tidelog.storage", logging.ERROR, "", 0, message, args, None)


def test_a_line_is_one_json_object_with_the_names_elastic_knows() -> None:
    text = JsonFormatter(7).format(record('%s has\na "quote"', "disk"))
    assert "\n" not in text
    line = json.loads(text)
    assert line.pop("@timestamp").endswith("Z")
    assert isinstance(line.pop("process.pid"), int)
    assert line == {
        "log.level": "error",
        "message": 'disk has\na "quote"',
        "log.logger": "tidelog.storage",
        "service.name": "tidelog",
        "service.node.name": "7",
    }


def test_a_line_tells_which_request_it_is_about() -> None:
    for known, told in ((("127.0.0.1:4711", 12), "127.0.0.1:4711/12"), ("abc", "abc")):
        token = request_id.set(known)
        try:
            assert json.loads(JsonFormatter(1).format(record("x")))["request.id"] == told
        finally:
            request_id.reset(token)


def test_an_exception_comes_with_its_trace() -> None:
    line = json.loads(JsonFormatter(1).format(record("it failed", problem=True)))
    assert (line["error.type"], line["error.message"]) == ("KeyError", "'what'")
    assert line["error.stack_trace"].startswith("Traceback")


def test_levels_of_all_and_of_parts() -> None:
    assert parse_levels(("WARNING", "tidelog.storage=debug"), "levels") == {
        "": logging.WARNING,
        "tidelog.storage": logging.DEBUG,
    }


@pytest.mark.parametrize("given", ["loud", "tidelog.storage=loud", "uvicorn=debug", "tidelog.storage"])
def test_an_impossible_level_is_refused_at_the_start(given: str) -> None:
    with pytest.raises(InvalidConfig, match=r"tidelog\.log\.levels cannot have"):
        BrokerConfig.of({"tidelog.log.levels": given})


def test_an_address_with_very_many_lines_has_few_and_says_how_many_were_left_out(
    caplog: pytest.LogCaptureFixture,
) -> None:
    now_s = 0.0
    sparing = SparingLog(logging.getLogger("tidelog.test"), lambda: now_s)
    for _ in range(1_000):
        sparing.warning("bad", "refused %s", "bad")
    sparing.warning("good", "refused %s", "good")
    said = [record.getMessage() for record in caplog.records]
    assert said == ["refused bad"] * SparingLog.OF_ONE + ["refused good"]
    now_s = 1.0
    sparing.warning("bad", "refused %s", "bad")
    assert caplog.records[-1].getMessage() == "refused bad (950 more lines about bad were left out)"
    for number in range(10_000):
        sparing.warning(str(number), "refused %s", number)
    assert len(caplog.records) <= SparingLog.OF_ALL + SparingLog.OF_ALL_A_SECOND + 2
    assert len(sparing._by_address) == SparingLog.ADDRESSES_MAX
