"""HTML elements, built so that data can never become markup: text is escaped unless this module built it.  Pure.

    h.td("<b>", class_="name")      gives      <td class="name">&lt;b&gt;</td>

Scripts, styles and handlers inside a page are refused: the console's content security policy forbids browsers to run
them anyway.  Addresses must be paths of this site."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Protocol, TypeAlias
from urllib.parse import quote, urlencode

VOID = frozenset({"br", "hr", "img", "input", "link", "meta"})
ADDRESSES = frozenset({"action", "formaction", "href", "src"})
REFUSED = frozenset({"style", "iframe", "object", "embed", "base"})


class Markup(str):
    """HTML that this module built."""

    __slots__ = ()


Child: TypeAlias = "str | int | Iterable[Child] | None"
Attribute: TypeAlias = "str | int | bool | None"

EMPTY = Markup()


class Make(Protocol):
    def __call__(self, *children: Child, **attributes: Attribute) -> Markup: ...


class Tags:
    """Every attribute is a function that builds an element of that name: `h.div("text", class_="card")`."""

    def __getattr__(self, name: str) -> Make:
        if name.startswith("__"):
            raise AttributeError(name)
        name = name.rstrip("_").replace("_", "-")
        if name in REFUSED:
            raise ValueError(f"the console does not use <{name}>")

        def make(*children: Child, **attributes: Attribute) -> Markup:
            return element(name, children, attributes)

        self.__dict__[name] = make
        return make


h = Tags()


def element(name: str, children: Iterable[Child], attributes: dict[str, Attribute]) -> Markup:
    opened = f"<{name}{''.join(_attribute(key, value) for key, value in attributes.items())}>"
    inner = joined(children)
    if name == "script" and inner:
        raise ValueError("a script must be a file of its own")
    if name in VOID:
        assert not inner, f"<{name}> has no content"
        return Markup(opened)
    return Markup(f"{opened}{inner}</{name}>")


def joined(children: Iterable[Child]) -> Markup:
    """The children, concatenated; None adds nothing."""
    return Markup("".join(_text(child) for child in children))


def _text(child: Child) -> str:
    if child is None:
        return ""
    if isinstance(child, Markup):
        return child
    if isinstance(child, str):
        return escape(_shown(child))
    if isinstance(child, int):
        return str(child)
    return joined(child)


def _attribute(key: str, value: Attribute) -> str:
    name = key.rstrip("_").replace("_", "-")
    if value is None or value is False:
        return ""
    if name.startswith("on") or name == "style":
        raise ValueError(f"attribute {name} is a script or a style: put it into a file of its own")
    if value is True:
        return f" {name}"
    text = str(value)
    if name in ADDRESSES and not _is_own(text):
        raise ValueError(f"{text!r} is not a path of this site")
    return f' {name}="{escape(_shown(text))}"'


def _is_own(address: str) -> bool:
    return address[:1] in ("/", "?", "#") and address[:2] not in ("//", "/\\")


def _shown(text: str) -> str:
    # Names decoded from arbitrary bytes may hold lone surrogates, which UTF-8 cannot encode.
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def path(*parts: str | int, **query: str | int | None) -> str:
    """An address of the console: each part quoted, then the query string without the values that are None."""
    parameters = {key.rstrip("_"): str(value) for key, value in query.items() if value is not None}
    place = "/" + "/".join(["console", *(quote(str(part), safe="") for part in parts)])
    return f"{place}?{urlencode(parameters, errors='replace')}" if parameters else place
