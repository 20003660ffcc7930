"""`tidelog top` against a real broker: on a pseudo terminal, and where there is none."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from tests.conformance.clients import confluent_produce
from tests.conformance.conftest import BrokerFactory
from tests.conformance.consuming import fill
from tests.conformance.process import wait_until
from tests.conformance.pseudo_terminal import PseudoTerminal
from tests.conformance.test_cli_topics import failed, ok
from tests.conformance.tidelog_broker import TidelogBroker
from tests.faults.monitored import scrape
from tests.unit.cli.commands import TIDELOG, execute, invoke
from tidelog import Admin, NewTopic, Producer, TopicPartition

HOSTILE = "evil\x1b[2J\x1b]0;owned\x07[red]x[/red]\u202e"
SHOWN = r"evil\x1b[2J\x1b]0;owned\x07[red]x[/red]\u202e"


def top(bootstrap: str, *arguments: str, **options: Any) -> PseudoTerminal:
    return PseudoTerminal(
        [TIDELOG, "top", "--bootstrap", bootstrap, "--interval", "0.2", *arguments], **options
    )


def commit(bootstrap: str, group: str, topic: str, offset: int) -> None:
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.alter_group_offsets(group, {TopicPartition(topic, 0): offset})


def test_one_picture_for_scripts(bootstrap: str, topic: Callable[..., str], name: Callable[[], str]) -> None:
    known, group = topic(partitions=2), name()
    fill(bootstrap, known, partitions=2)
    commit(bootstrap, group, known, 4)
    options = ("--bootstrap", bootstrap, "--topic", known, "--group", group, "--interval", "0.2")
    text = ok("top", "--once", *options)
    assert ok("top", *options).splitlines()[1:] == text.splitlines()[1:], "without a terminal it is the same"
    rows = {line.split()[0]: line.split() for line in text.splitlines() if line}
    assert rows[known][1] == "0" and "6" in rows[group]
    (shown,) = ok("top", "--once", "--json", *options).splitlines()
    found = json.loads(shown)
    (one,) = found["topics"]
    assert (one["name"], one["partitions"], one["records"], one["groups"], one["lag"]) == (known, 2, 20, 1, 6)
    assert one["size_bytes"] > 0 and one["records_in_per_sec"] == 0 and one["under_replicated"] == 0
    (behind,) = found["groups"]
    assert (behind["name"], behind["state"], behind["members"], behind["lag"]) == (group, "Empty", 0, 6)
    assert (behind["lag_per_sec"], behind["lags"]) == (0, [6, 6])
    (broker,) = found["brokers"]
    assert broker["controller"] and broker["leaders"] >= 2 and broker["size_bytes"] > 0
    assert found["problems"] == []


def test_lines_of_json_show_rates(bootstrap: str, topic: Callable[..., str], name: Callable[[], str]) -> None:
    known, group = topic(), name()
    command = [TIDELOG, "top", "--json", "--interval", "0.2", "--topic", known, "--bootstrap", bootstrap]
    commit(bootstrap, group, known, 0)
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running,
        Producer(bootstrap_servers=bootstrap) as producer,
    ):
        assert running.stdout is not None and running.stderr is not None
        assert json.loads(running.stdout.readline())["topics"][0]["records_in_per_sec"] is None
        for _ in range(100):
            producer.send(known, b"x" * 1_000)
        producer.flush()
        commit(bootstrap, group, known, 50)
        figures = ("records_in_per_sec", "bytes_in_per_sec", "records_out_per_sec", "bytes_out_per_sec")
        for line in running.stdout:
            (row,) = json.loads(line)["topics"]
            if all(row[one] for one in figures):
                break
        assert row["bytes_in_per_sec"] > 900 * row["records_in_per_sec"]
        # Half of it was read.
        assert row["records_out_per_sec"] == pytest.approx(row["records_in_per_sec"] / 2, rel=0.5)
        running.send_signal(signal.SIGINT)
        running.communicate(timeout=60)
        assert running.returncode == 0


def test_a_reader_that_goes_away_ends_it(bootstrap: str) -> None:
    command = f"{TIDELOG} top --json --interval 0.2 --bootstrap {bootstrap} | head -c 10"
    shown = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, timeout=60)
    assert (shown.stdout, shown.stderr) == (b'{"time_ms"', b"")


def test_views_filter_and_keys_on_a_terminal(
    bootstrap: str, topic: Callable[..., str], name: Callable[[], str]
) -> None:
    known, group = topic(), name()
    fill(bootstrap, known, partitions=1)
    commit(bootstrap, group, known, 3)
    with top(bootstrap) as terminal:
        terminal.until(lambda text: "TOPIC" in text, "the topics come first")
        assert terminal.output.count("\x1b[?1049h") == 1
        terminal.press(f"/{known}\r")
        text = terminal.until(lambda text: f"1-1 of 1  with '{known}'" in text, "the filter holds")
        assert known in text.splitlines()[5]
        confluent_produce(bootstrap, known, [])
        fill(bootstrap, known, partitions=1)
        terminal.until(
            lambda text: text.splitlines()[5].split()[1:2] not in ([], ["0"], ["–"]), "a rate is shown"
        )
        terminal.press(f"2/{group}\r")
        text = terminal.until(lambda text: group in text and "GROUP" in text, "the group is shown")
        terminal.until(lambda text: "▲" in text or "17" in text, "its lag has grown")
        terminal.press("\t")
        terminal.until(lambda text: "BROKER" in text and bootstrap in text, "brokers are shown")
        terminal.press("p")
        terminal.until(lambda text: "PAUSED" in text, "it pauses")
        terminal.press("?")
        terminal.until(lambda text: "Press any key to return" in text, "help is shown")
        terminal.press("x1")
        terminal.until(lambda text: "TOPIC" in text and "PAUSED" in text, "and left")
        terminal.press("q")
        assert terminal.ended() == 0
        assert terminal.output.endswith("\x1b[?25h\x1b[?1049l"), "the screen is given back"
        assert terminal.modes_now() == terminal.modes


def test_small_terminals_and_changes_of_size(bootstrap: str, topic: Callable[..., str]) -> None:
    known = topic()
    with top(bootstrap, "--topic", known, columns=20, rows=4) as terminal:
        terminal.until(lambda text: known[:5] in text, "a row is shown")
        assert all(len(line) <= 20 for line in terminal.screen) and len(terminal.screen) <= 4
        for columns, rows in ((1, 1), (200, 50), (80, 24)):
            terminal.resize(columns, rows)
            text = terminal.until(bool, f"it is drawn anew for {columns} x {rows}")
            assert max(map(len, text.splitlines())) <= columns
        terminal.until(lambda text: known in text, "all is as before")


def test_names_are_not_taken_for_commands_of_the_terminal(bootstrap: str, topic: Callable[..., str]) -> None:
    known = topic()
    commit(bootstrap, HOSTILE, known, 0)
    with top(bootstrap, "--view", "groups", "--group", "evil*", columns=200) as terminal:
        text = terminal.until(lambda text: "evil" in text, "the group is shown")
        assert SHOWN in text
        terminal.press("q")
        assert terminal.ended() == 0
        assert not [one for one in ("\x07", "\u202e", "\x1b[2J", "\x1b]0;") if one in terminal.output]
    for arguments in (("--once",), ("--once", "--json")):
        shown = ok("top", "--bootstrap", bootstrap, "--interval", "0.2", "--group", "evil*", *arguments)
        assert "evil" in shown and "\x1b" not in shown and "\x07" not in shown


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_and_gives_the_terminal_back(bootstrap: str, number: signal.Signals) -> None:
    with top(bootstrap) as terminal:
        terminal.until(lambda text: "TOPIC" in text, "it runs")
        if number == signal.SIGINT:
            terminal.press("\x03")
        else:
            terminal.process.send_signal(number)
        assert terminal.ended() == 0
        assert terminal.output.endswith("\x1b[?1049l") and terminal.modes_now() == terminal.modes


def test_stopped_with_ctrl_z_it_gives_the_terminal_back_and_goes_on(bootstrap: str) -> None:
    with top(bootstrap) as terminal:
        terminal.until(lambda text: "TOPIC" in text, "it runs")
        terminal.press("\x1a")

        def stopped() -> bool:
            terminal._read(0.01)
            with open(f"/proc/{terminal.process.pid}/stat") as stat:
                return stat.read().rsplit(")", 1)[1].split()[0] == "T"

        wait_until(stopped, 60, "it stops")
        terminal.drain()
        assert terminal.modes_now() == terminal.modes and terminal.output.count("\x1b[?1049l") == 1
        terminal.output = ""
        os.kill(terminal.process.pid, signal.SIGCONT)
        terminal.until(lambda text: "TOPIC" in text, "it is drawn again")
        terminal.press("q")
        assert terminal.ended() == 0


def test_a_terminal_that_closes_ends_it(bootstrap: str) -> None:
    terminal = top(bootstrap)
    terminal.until(lambda text: "TOPIC" in text, "it runs")
    os.close(terminal._ours)
    os.close(terminal._theirs)
    try:
        assert terminal.process.wait(60) in (0, -signal.SIGHUP)
    finally:
        if terminal.process.poll() is None:
            terminal.process.kill()
            terminal.process.wait()


def test_a_broker_that_goes_away_is_told_and_looked_for(own_broker: BrokerFactory) -> None:
    broker = own_broker()
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.create_topics([NewTopic("orders", 1)])
    with top(broker.bootstrap) as terminal:
        terminal.until(lambda text: "orders" in text and "all replicas are in sync" in text, "it runs")
        broker.kill()
        text = terminal.until(lambda text: "cannot reach" in text or "not answered" in text, "it says so")
        assert "orders" in text, "what was seen stays"
        broker.start()
        terminal.until(lambda text: "all replicas are in sync" in text, "it has found it again")
        terminal.press("q")
        assert terminal.ended() == 0


def asked(broker: TidelogBroker) -> float:
    """Requests, so far."""
    series = scrape(broker.http)
    return sum(value for (name, _), value in series.items() if name == "mq_requests_total")


def test_a_thousand_topics_take_few_requests(own_broker: BrokerFactory) -> None:
    broker = own_broker({"num.partitions": "1"})
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.create_topics([NewTopic(f"t{number:04}", 1) for number in range(1_000)])
        for number in range(50):
            admin.alter_group_offsets(f"g{number}", {TopicPartition(f"t{number:04}", 0): 0})
    if isinstance(broker, TidelogBroker):
        before = asked(broker)
        ok("top", "--once", "--interval", "0.2", "--bootstrap", broker.bootstrap)
        assert asked(broker) - before < 60, "two looks at 1,000 topics and 50 groups"
    with top(broker.bootstrap, rows=30) as terminal:
        terminal.until(lambda text: "1-24 of 1,000" in text, "all are known")
        terminal.press("\x1b[F")
        terminal.until(lambda text: "of 1,000" in text and "t0999" in text, "the last is shown")
        terminal.press("q")
        assert terminal.ended() == 0


def test_without_a_broker_it_is_one_clear_line() -> None:
    assert failed("top", "--once", "--bootstrap", "127.0.0.1:1").count("\n") == 1
    with PseudoTerminal([TIDELOG, "top", "--bootstrap", "127.0.0.1:1"]) as terminal:
        assert terminal.ended() == 1
        assert "cannot reach a broker at 127.0.0.1:1" in terminal.output
        assert "\x1b[?1049h" not in terminal.output


@pytest.mark.parametrize("arguments", [("--interval", "0"), ("--view", "planets"), ("--interval", "nan")])
def test_a_wrong_option_is_refused(arguments: tuple[str, ...]) -> None:
    assert invoke("top", *arguments).exit_code == 2


def test_terminals_without_keys_or_without_bars(bootstrap: str, topic: Callable[..., str]) -> None:
    words = f"exec {TIDELOG} top --bootstrap {bootstrap} --topic {topic()} < /dev/null"
    with PseudoTerminal(["bash", "-c", words], PYTHONIOENCODING="ascii") as terminal:
        text = terminal.until(lambda text: "TOPIC" in text, "it is shown")
        assert "Ctrl-C quit" in text and text.isascii()
        terminal.press("\x03")
        assert terminal.ended() == 0


def test_a_dumb_terminal_gets_one_picture(bootstrap: str) -> None:
    with top(bootstrap, TERM="dumb") as terminal:
        assert terminal.ended() == 0
        assert "TOPIC" in terminal.output and "\x1b[?1049h" not in terminal.output
    assert b"TOPIC" in execute("top", "--bootstrap", bootstrap, "--interval", "0.2").stdout
