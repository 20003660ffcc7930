from __future__ import annotations

import random
from xml.etree import ElementTree

import pytest

from tidelog.model.advice import best, consumers_worth_showing, law_of, predict
from tidelog.model.figures import BadFigures, Figure, read
from tidelog.model.plot import Chart, Curve, svg, terminal, ticks
from tidelog.model.scalability import Scalability, fit


def test_the_law_is_found_again_from_its_own_figures() -> None:
    law = Scalability(1000, 0.03, 0.0005)
    found = fit([(n, law.throughput(n)) for n in (1, 2, 4, 8, 16, 32, 64)])
    assert found.rate == pytest.approx(1000) and found.explained == pytest.approx(1)
    assert found.contention == pytest.approx(0.03) and found.coherence == pytest.approx(0.0005)
    assert found.peak == 44
    assert all(found.throughput(44) >= found.throughput(n) for n in range(1, 200))


def test_noise_moves_the_law_a_little() -> None:
    law, dice = Scalability(1000, 0.05, 0.001), random.Random(3)
    found = fit([(n, law.throughput(n) * dice.uniform(0.97, 1.03)) for n in (1, 2, 4, 8, 16, 32, 48)])
    assert found.rate == pytest.approx(1000, rel=0.1)
    assert found.limit == pytest.approx(law.limit, rel=0.05) and found.explained > 0.95


def test_costs_are_never_negative() -> None:
    found = fit([(1, 100), (2, 205), (4, 420), (8, 870)])  # better than linear
    assert (found.contention, found.coherence, found.peak) == (0, 0, None)
    assert found.rate == pytest.approx(108, rel=0.02)


def test_without_coherence_there_is_a_limit_and_no_peak() -> None:
    law = Scalability(100, 0.1, 0.0)
    assert law.peak is None and law.limit == pytest.approx(1000)
    assert law.efficiency(11) == pytest.approx(0.5)


def test_two_numbers_of_consumers_are_too_few() -> None:
    with pytest.raises(ValueError, match="at least 3 different numbers of consumers, not 2"):
        law_of([Figure(1, 10.0), Figure(2, 20.0), Figure(2, 21.0)])
    with pytest.raises(ValueError, match="throughput above 0"):
        fit([(1, 0.0), (2, 1.0), (3, 1.0)])


def test_latencies_alone_tell_the_service_rate() -> None:
    law = law_of([Figure(1, None, 50.0, 20.0), Figure(1, None, 80.0, 50.0)])  # 1 / (100 - arrival)
    assert law.rate == pytest.approx(100, rel=1e-3)


def test_figures_in_csv_and_json_are_the_same() -> None:
    expected = [Figure(1, 950.0, None, 1.5), Figure(2, 1800.0)]
    assert read("Consumers, throughput, latency_ms\n1, 950, 1.5\n2, 1800,\n") == expected
    assert read("\ufeffConsumers;Throughput;latency_ms\r\n1;950;1,5\r\n2;1800;\r\n") == expected
    assert read('[{"n": 1, "rate": 950, "latency_ms": 1.5}, {"n": 2, "rate": 1800}]') == expected
    assert read('{"n": 1, "rate": 950, "latency_ms": 1.5}\n{"n": 2, "rate": 1800}\n') == expected


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "no figures"),
        ("consumers,throughput\n1,fast\n", "line 2: throughput must be a number, not 'fast'"),
        ("consumers,throughput\n1,5\n2,nan\n", "line 3: throughput must be a number from 0"),
        ("throughput\n1\n", "line 2 has no 'consumers'"),
        ("consumers\n1\n", "neither 'throughput' nor 'latency_ms'"),
        ("consumers,throughput\n1.5,3\n", "whole number"),
        ("[1]", "objects"),
        ("{", "not JSON"),
    ],
)
def test_bad_figures_are_told_with_their_line(text: str, problem: str) -> None:
    with pytest.raises(BadFigures, match=problem):
        read(text)


def test_littles_law_checks_what_was_measured() -> None:
    assert Figure(1, 100.0, 100.0, 50.0, 5.0).little == pytest.approx(1)
    assert Figure(1, 100.0, None, 50.0, 10.0).little == pytest.approx(2)
    assert Figure(1, 100.0).little is None


def test_the_best_is_the_fewest_that_do() -> None:
    law = Scalability(200, 0.0, 0.0)
    predictions = predict(law, 900, 12)
    assert [one.queue is None for one in predictions[:5]] == [True] * 4 + [False]
    assert best(predictions).consumers == 8
    assert best(predictions, latency_s_max=0.05).consumers == 6
    hopeless = best(predictions, latency_s_max=0.02)
    assert hopeless.consumers is None and "the least is 23" in hopeless.reason


def test_past_the_peak_more_consumers_do_not_help() -> None:
    law = Scalability(100, 0.1, 0.01)
    figures = [Figure(n, law.throughput(n)) for n in (1, 4, 16)]
    shown = consumers_worth_showing(law, figures, arrival=1000)
    advice = best(predict(law, 1000, shown))
    assert advice.consumers is None and f"{law.peak} serve the most" in advice.reason
    steady = best(predict(law, 200, shown)).consumers
    assert steady is not None and 2 < steady < 16


def test_plots_are_drawn_to_scale() -> None:
    chart = Chart(
        "T & S",
        "consumers",
        "records/s",
        [Curve("line", [(0, 0), (10, 100)]), Curve("dots", [(5, 50)], True)],
        5,
    )
    drawn = terminal(chart, columns=20, rows=10)
    rows = drawn.splitlines()[1:11]
    assert (
        "o" in rows[5][10:] and sum("|" in row[10:] for row in rows) == 9
    )  # the dot hides one cell of the mark
    picture = svg([chart, chart])
    assert picture.count("<polyline") == 2 and picture.count("<circle") == 2
    assert "T &amp; S" in picture and 'height="640"' in picture
    ElementTree.fromstring(picture)
    with pytest.raises(ValueError, match="nothing to draw"):
        Chart("empty", "", "", [])


def test_ticks_are_round() -> None:
    assert ticks(10) == [0, 2, 4, 6, 8, 10]
    assert ticks(1.05) == pytest.approx([0, 0.25, 0.5, 0.75, 1.0])
    assert ticks(16_800)[1] == 5000
