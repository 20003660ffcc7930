"""The check of pinned requirements against a database of vulnerabilities: what is asked, and what is made of the answer."""

from __future__ import annotations

import pytest

from tools.vulnerabilities import FILES, ROOT, found, pinned, query

TEXT = """\
click==8.1.7 \\
    --hash=sha256:aaaa
Uvicorn[standard]==0.30.0 ; python_version >= "3.11" \\
    --hash=sha256:bbbb
# a==1
typing_extensions==4.12.2
"""


def test_what_is_pinned_is_asked_for() -> None:
    packages = list(pinned(TEXT))
    assert packages == [("click", "8.1.7"), ("uvicorn", "0.30.0"), ("typing-extensions", "4.12.2")]
    assert query(packages)["queries"][0] == {
        "package": {"name": "click", "ecosystem": "PyPI"},
        "version": "8.1.7",
    }


@pytest.mark.parametrize("name", FILES)
def test_our_own_files_can_be_read(name: str) -> None:
    packages = list(pinned((ROOT / name).read_text()))
    assert len(packages) > 5 and "click" in dict(packages)


def test_packages_with_vulnerabilities_are_told() -> None:
    packages = [("click", "8.1.7"), ("uvicorn", "0.30.0")]
    answer = {"results": [{}, {"vulns": [{"id": "GHSA-2"}, {"id": "GHSA-1"}]}]}
    assert found(packages, answer) == ["uvicorn 0.30.0: GHSA-1, GHSA-2"]


@pytest.mark.parametrize("answer", [[], {}, {"results": None}, {"results": [{}]}, "html"])
def test_another_answer_is_no_clean_bill(answer: object) -> None:
    with pytest.raises(ValueError, match="does not fit"):
        found([("click", "8.1.7"), ("uvicorn", "0.30.0")], answer)
