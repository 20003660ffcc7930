"""Messages, names and settings are data, never markup; pages of other sites cannot use the console."""

from __future__ import annotations

import http.client
import json
import re
import struct
import uuid
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.browser.conftest import WAIT_MS, watched
from tests.conformance.tidelog_broker import TidelogBroker
from tidelog import Admin, ConfigResource, Consumer, Producer, TopicPartition

expect.set_options(timeout=WAIT_MS)

Topic = Callable[..., str]
SCRIPT = "<script>window.pwned=1</script><img src=x onerror=window.pwned=1>\"'><svg/onload=window.pwned=1>"


def ask(site: str, method: str, path: str, headers: dict[str, str], body: str = "") -> tuple[int, str]:
    connection = http.client.HTTPConnection(site.removeprefix("http://"), timeout=60)
    connection.request(method, path, body.encode(), headers)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text


def register(site: str, subject: str, schema: dict[str, Any]) -> int:
    headers = {"content-type": "application/vnd.schemaregistry.v1+json"}
    body = json.dumps({"schema": json.dumps(schema)})
    status, text = ask(site, "POST", f"/subjects/{quote(subject, safe='')}/versions", headers, body)
    assert status == 200, text
    return int(json.loads(text)["id"])


def test_nothing_that_users_write_runs(page: Page, broker: TidelogBroker, site: str, topic: Topic) -> None:
    name = topic()
    group, producer_id = f"{SCRIPT} {uuid.uuid4().hex[:6]}", f"tx {SCRIPT}"
    doc = {"type": "record", "name": "R", "doc": SCRIPT, "fields": [{"name": "f", "type": "string"}]}
    schema_id = register(site, f"{name}-value {SCRIPT}", doc)
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.alter_group_offsets(group, {TopicPartition(name, 0): 0})
        with pytest.raises(Exception):  # noqa: B017  a setting is told in the error as it was given
            admin.alter_configs({ConfigResource("topic", name): {"cleanup.policy": SCRIPT}})
    text = SCRIPT.encode()
    avro = (
        b"\0" + struct.pack(">I", schema_id) + bytes([len(text) * 2 & 0x7F | 0x80, len(text) * 2 >> 7]) + text
    )
    with Producer(
        bootstrap_servers=broker.bootstrap, transactional_id=producer_id, client_id=SCRIPT
    ) as producer:
        producer.begin_transaction()
        producer.send(name, text, key=text, headers=[(SCRIPT, text)])
        producer.send(name, avro, key=json.dumps({SCRIPT: SCRIPT}).encode())
        producer.commit_transaction()
    member = Consumer(name, bootstrap_servers=broker.bootstrap, group_id=group, client_id=SCRIPT)
    with member:
        member.poll(WAIT_MS)
        places = [
            "/",
            "/console/topics",
            f"/console/topics?{urlencode({'q': SCRIPT})}",
            f"/console/topics/{quote(SCRIPT, safe='')}",
            f"/console/topics/{name}",
            f"/console/topics/{name}/messages",
            f"/console/topics/{name}/messages?{urlencode({'key': SCRIPT, 'from': SCRIPT, 'time': SCRIPT})}",
            f"/console/topics/{name}/messages?{urlencode({'from': 'time', 'time': SCRIPT})}",
            f"/console/topics/{name}/messages?{urlencode({'value': SCRIPT})}",
            f"/console/topics/{name}/messages/0/0",
            f"/console/topics/{name}/messages/0/1",
            f"/console/topics/{name}/settings?{urlencode({'q': SCRIPT})}",
            "/console/groups",
            f"/console/groups/show?{urlencode({'name': group})}",
            f"/console/groups/show?{urlencode({'name': SCRIPT})}",
            f"/console/groups/settings?{urlencode({'name': group})}",
            f"/console/groups/reset?{urlencode({'name': group, 'to': 'earliest'})}",
            f"/console/groups/reset?{urlencode({'name': group, 'to': SCRIPT})}",
            f"/console/shares/show?{urlencode({'name': SCRIPT})}",
            "/console/transactions",
            f"/console/transactions/show?{urlencode({'name': producer_id})}",
            "/console/schemas",
            f"/console/schemas/show?{urlencode({'name': f'{name}-value {SCRIPT}'})}",
            "/console/alerts",
            f"/console/clients?{urlencode({'q': SCRIPT})}",
            f"/console/clients/show?{urlencode({'name': SCRIPT})}",
            f"/console/find?{urlencode({'q': SCRIPT})}",
            f"/console/{quote(SCRIPT, safe='')}",
        ]
        shown = 0
        for place in places:
            page.goto(place)
            assert page.evaluate("window.pwned") is None, place
            assert page.locator("main script, main img, main [onerror], main [onload]").count() == 0, place
            shown += "<script>" in page.locator("main").inner_text()
        assert shown >= 12  # it was there to be seen, as text


def test_the_live_tail_shows_scripts_as_text(page: Page, broker: TidelogBroker, topic: Topic) -> None:
    name = topic()
    page.goto(f"/console/topics/{name}/tail")
    expect(page.locator("#tail-state")).to_have_text("waiting for messages")
    row = page.locator("table[data-tail] tbody tr").first
    with Producer(bootstrap_servers=broker.bootstrap) as producer:
        producer.send(name, SCRIPT.encode(), key=SCRIPT.encode(), headers=[(SCRIPT, SCRIPT.encode())])
    expect(row).to_contain_text("<script>window.pwned=1</script>")
    assert page.evaluate("window.pwned") is None


def test_a_refused_setting_is_told_as_text(page: Page, topic: Topic) -> None:
    name = topic()
    page.goto(f"/console/topics/{name}/settings?q=cleanup.policy")
    form = page.get_by_role("form", name=f"cleanup.policy of topic {name}", exact=True)
    form.get_by_role("textbox").fill(SCRIPT)
    form.get_by_role("button", name="Save").click()
    expect(page.get_by_role("alert")).to_contain_text("<script>")
    assert page.evaluate("window.pwned") is None


def test_a_script_inside_a_page_would_not_run(context: BrowserContext) -> None:
    """The policy is a second lock: even markup that got into a page would be harmless."""
    page = context.new_page()
    problems = watched(page)
    page.goto("/console/topics")
    page.evaluate("document.querySelector('main').innerHTML = '<img src=x onerror=window.pwned=1>'")
    page.evaluate(
        "document.body.append(Object.assign(document.createElement('script'), {text: 'window.pwned=1'}))"
    )
    page.wait_for_timeout(300)
    assert page.evaluate("window.pwned") is None
    assert any("Content Security Policy" in one for one in problems)
    page.close()


def test_forms_of_other_pages_are_refused(context: BrowserContext, site: str, topic: Topic) -> None:
    name = topic()
    page = context.new_page()
    page.goto(f"/console/topics/{name}")
    cookie = next(one for one in context.cookies() if one["name"] == "tidelog_form")
    assert cookie["httpOnly"] and cookie["sameSite"] == "Strict"
    token = page.locator("input[name=token]").first.get_attribute("value") or ""
    assert token == cookie["value"]
    page.close()
    plain = {"content-type": "application/x-www-form-urlencoded"}
    own = plain | {"cookie": f"tidelog_form={token}"}
    place, right = f"/console/topics/{name}/partitions", urlencode({"total": 3, "token": token})
    for headers, body, status in (
        (plain, right, 403),
        (own, urlencode({"total": 3}), 403),
        (own, urlencode({"total": 3, "token": token[:-1] + "~"}), 403),
        (own | {"origin": "http://evil.example"}, right, 403),
        (own | {"sec-fetch-site": "cross-site"}, right, 403),
        (own | {"host": "evil.example"}, right, 421),
        (own | {"content-type": "text/plain"}, right, 415),
        (own, "x=1&" * 500 + right, 400),
        (own, "total=%ff&" + right, 400),
        (own | {"origin": site}, right, 303),
    ):
        answered, text = ask(site, "POST", place, headers, body)
        assert answered == status, (headers, text)
    assert ask(site, "GET", place, own)[0] == 404  # looking changes nothing


def test_a_reader_is_never_sent_to_another_site(site: str, topic: Topic) -> None:
    """Where a form leads back to is taken from the form: it must be a page of the console."""
    token = "x" * 43
    headers = {"content-type": "application/x-www-form-urlencoded", "cookie": f"tidelog_form={token}"}
    form = {"kind": "topic", "name": topic(), "key": "retention.ms", "value": "1000", "token": token}
    for back in ("https://evil.example/", "//evil.example", "/\\evil.example", "javascript:alert(1)"):
        connection = http.client.HTTPConnection(site.removeprefix("http://"), timeout=60)
        connection.request("POST", "/console/settings", urlencode(form | {"back": back}), headers)
        answer = connection.getresponse()
        assert (answer.status, answer.headers["location"]) == (303, "/")
        connection.close()


@pytest.mark.parametrize(
    ("place", "complaint"),
    [
        ("/console/transactions/abort", "was not fenced"),
        ("/console/groups/delete", "was not deleted"),
    ],
)
def test_what_cannot_be_undone_is_refused_without_a_confirmation(
    site: str, place: str, complaint: str
) -> None:
    token = "x" * 43
    headers = {"content-type": "application/x-www-form-urlencoded", "cookie": f"tidelog_form={token}"}
    status, text = ask(site, "POST", place, headers, urlencode({"name": "shop", "token": token}))
    assert status == 400 and complaint in text and "tick the box" in text


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/console/nowhere", 404),
        ("/console/topics/none", 404),
        ("/console/groups/show?name=none", 404),
        ("/console/groups/show", 400),
        ("/console/transactions/show?name=none", 404),
        ("/console/schemas/show?name=none", 404),
        ("/console/brokers/77", 404),
        ("/console/topics?page=x", 400),
        ("/console/static/none.js", 404),
        ("/console/static/..%2fapp.py", 404),
    ],
)
def test_what_is_not_there_is_told_in_words(site: str, path: str, status: int) -> None:
    answered, text = ask(site, "GET", path, {})
    assert answered == status
    if "/static/" not in path:
        words = re.search(r'role="alert"><p>([^<]*)', text)
        assert words and words[1].endswith(".") and len(words[1].split()) >= 4, text
