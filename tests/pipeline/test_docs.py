"""The code in the guides: Python is run as far as it goes without data, SQL is parsed and planned on real topics."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.topics import create_topic
from tidelog.pipeline import Pipeline
from tidelog.pipeline.sql.catalog import Catalog
from tidelog.pipeline.sql.engine import Engine
from tidelog.pipeline.sql.statements import Explain, Insert, Select, parse_script

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guide"

pytestmark = pytest.mark.timeout(1500)  # Spark on a busy machine takes its time


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", (GUIDE / page).read_text(), re.MULTILINE | re.DOTALL)


@pytest.fixture
def around(spark: Any, bootstrap: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("TIDELOG_BOOTSTRAP", bootstrap)
    monkeypatch.setenv("TIDELOG_CHECKPOINTS", str(tmp_path))
    return bootstrap


def test_the_guide_to_pipelines_is_one_program(around: str) -> None:
    code = "\n".join(blocks("pipelines.md", "python")).replace("127.0.0.1:9092", around)
    names: dict[str, Any] = {}
    exec(compile(code, "pipelines.md", "exec"), names)
    assert list(names["pipeline"].outputs()) == ["totals", "alerts", "dead-letters"]
    assert names["named"].df.columns[-2:] == ["name", "city"]
    assert names["profile"].df.columns == ["customer", "name", "city", "credit", "_deleted"]
    assert names["visits"].df.columns == ["user", "window_start", "window_end", "pages", "first"]


@pytest.mark.parametrize("number", range(3))
def test_the_code_for_those_who_come_from_elsewhere(around: str, number: int) -> None:
    programs = blocks("from-kafka-streams.md", "python")
    assert len(programs) == 3
    names: dict[str, Any] = {}
    exec(compile(programs[number], "from-kafka-streams.md", "exec"), names)
    assert names["pipeline"].outputs()


@pytest.mark.parametrize("page", ["sql.md", "from-kafka-streams.md"])
def test_sql_of_the_guides(spark: Any, bootstrap: str, tmp_path: Path, page: str) -> None:
    from tidelog import Admin

    with Admin(bootstrap_servers=bootstrap) as admin:
        topics = {topic.name for topic in admin.list_topics()}
    for topic in {"clicks", "customers", "named", "pageviews"} - topics:
        create_topic(bootstrap, topic, 1, None)
    pipeline = Pipeline("guide", bootstrap=bootstrap, checkpoint=str(tmp_path), spark=spark)
    engine = Engine(pipeline, starting=False, catalog=Catalog())
    seen = 0
    for statement in parse_script("\n".join(blocks(page, "sql"))):
        seen += 1
        if isinstance(statement, Select | Explain):
            engine._plan(statement.query, streaming=statement.query.emit is not None)
        elif not isinstance(statement, Insert) or (
            statement.query is not None and statement.query.emit is not None
        ):
            engine.execute(statement)
    assert seen == {"sql.md": 20, "from-kafka-streams.md": 3}[page]
