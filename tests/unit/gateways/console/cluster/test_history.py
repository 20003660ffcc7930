"""Lines of figures stay bounded and in step; charts show what they are given."""

from __future__ import annotations

from tidelog.gateways.console.cluster.history import ClusterHistory, Series, quantile, rates
from tidelog.gateways.console.parts.chart import Line, line_chart, nice_top, sparkline


def test_names_that_come_and_go_have_gaps() -> None:
    lines = Series(points_max=3)
    for values in ({"a": 1}, {"a": 2, "b": 5}, {"b": 6}, {"b": 7}):
        lines.add(values)
    assert lines.of("a") == [2, None, None]
    assert lines.of("b") == [5, 6, 7]
    assert lines.of("never") == [None, None, None]
    lines.add({"b": 8})
    lines.add({"b": 9})
    assert "a" not in lines._lines


def test_there_are_only_so_many_lines() -> None:
    lines = Series(lines_max=2)
    lines.add({str(number): number for number in range(10)})
    assert len(lines._lines) == 2


def test_rates_are_by_second_and_never_below_zero() -> None:
    assert rates([0, 1000, 3000, 4000], [10, 20, 60, 0]) == [None, 10.0, 20.0, 0]
    assert rates([0, 1000, 2000], [None, 5, 10]) == [None, None, 5.0]


def test_a_history_forgets_its_oldest_points() -> None:
    history = ClusterHistory(points_max=2)
    for now in range(3):
        history.add(now * 1000, {"t": now * 10}, {}, {"messages": now})
    assert history.times_ms == [1000, 2000]
    assert history.rates(history.ends.of("t")) == [None, 10.0]


def test_the_growth_of_a_lag_is_that_since_a_point_old_enough() -> None:
    history = ClusterHistory()
    for minute, lag in enumerate((100, 300, 250, 700)):
        history.add(minute * 60_000, {}, {("billing", "orders"): lag, ("billing", "bills"): 5}, {})
    assert history.lag_growth("billing", "orders", 120_000) == 400
    assert history.lag_growth("billing", "orders", 180_000) == 600
    assert history.lag_growth("billing", "orders", 181_000) is None
    assert history.lag_growth("billing", "nothing", 60_000) is None
    assert history.lags.of("billing") == [105, 305, 255, 705]


def test_a_chart_says_its_newest_figure_and_has_room_for_the_largest() -> None:
    drawn = line_chart("Messages", [0, 1000, 2000], [Line("<in>", [1.0, None, 3.0])])
    assert 'aria-label="Messages: now &lt;in&gt; 3"' in drawn
    assert drawn.count('class="line"') == 2  # a gap is a gap
    assert "<svg" not in line_chart("Messages", [0], [Line("in", [1.0])])
    assert [nice_top(value) for value in (0, 0.3, 1, 3, 9, 12, 999, 1001)] == [1, 1, 1, 4, 10, 20, 1000, 2000]
    assert [nice_top(value, 1024) for value in (900, 1024, 3000, 5 << 20)] == [1024, 1024, 4096, 8 << 20]
    assert "<polyline" in sparkline([1, 2, None, 4], "x") and "<polyline" not in sparkline([None], "x")


def test_long_charts_are_thinned_and_keep_the_newest() -> None:
    drawn = line_chart("M", list(range(0, 500_000, 1000)), [Line("in", [float(n) for n in range(500)])])
    assert drawn.count("<rect") <= 120
    assert "now in 499" in drawn


def test_quantiles_of_counts_by_bound() -> None:
    assert quantile(0.99, (1, 5, 10), [100, 100, 100, 100]) == 0.99
    assert quantile(0.5, (1, 5, 10), [0, 10, 10, 10]) == 3.0
    assert quantile(0.99, (1, 5, 10), [0, 0, 0, 7]) == 10  # slower than the last bound
    assert quantile(0.99, (1, 5, 10), [0, 0, 0, 0]) is None
