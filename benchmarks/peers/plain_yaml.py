"""The part of YAML in which domains are declared: nested lists and mappings of scalars, all of them text.

Block style by indentation, flow style (and so JSON) in brackets, comments, quotes, scalars folded over
several lines.  Anchors, tags, block scalars and several documents are not read, and said to be so.

>>> read('a:\\n- name: "x"  # first\\n  ub: 3\\n- {name: y, ub: [1, 2]}\\n')
{'a': [{'name': 'x', 'ub': '3'}, {'name': 'y', 'ub': ['1', '2']}]}
"""

from __future__ import annotations

import json
import re
from typing import Any, Final, NamedTuple


class NotPlain(ValueError):
    """The line, and what is wrong there."""

    def __init__(self, line: int, problem: str) -> None:
        super().__init__(problem)
        self.line, self.problem = line, problem


class _Line(NamedTuple):
    number: int
    indent: int
    text: str


_QUOTED: Final = r"\"(?:[^\"\\]|\\.)*\"|'(?:[^']|'')*'"
_KEY: Final = re.compile(
    rf"({_QUOTED}|[^\s\"'\[\]{{}},#&*!|>%@`-][^#\[\]{{}}]*?|-[^\s].*?)\s*:(?:\s+|$)(.*)"
)
_TOKEN: Final = re.compile(
    rf"\s*({_QUOTED}|[\[\]{{}},:]|(?:[^\s\[\]{{}},:]|:(?=\S))[^\[\]{{}},:]*)"
)
_COMMENT: Final = re.compile(rf"((?:{_QUOTED}|[^\"'#]|(?<=[^\s\[,:])[\"']|(?<=\S)#)*)(?:#.*)?")


def read(text: str) -> Any:
    """The value of a document; None for an empty one."""
    lines = []
    for number, raw in enumerate(text.splitlines(), 1):
        found = _COMMENT.fullmatch(raw)
        body = (found[1] if found else raw).rstrip()
        if not body.strip() or body == "---":
            continue
        spaces = len(body) - len(body.lstrip(" "))
        if body[spaces] == "\t":
            raise NotPlain(number, "indented by a tab")
        lines.append(_Line(number, spaces, body[spaces:]))
    if not lines:
        return None
    value, rest = _block(lines, 0)
    if rest < len(lines):
        raise NotPlain(lines[rest].number, "indented less than what it belongs to, or not at all")
    return value


def _block(lines: list[_Line], at: int) -> tuple[Any, int]:
    """The value that starts at a line, and the line after it."""
    head = lines[at]
    if head.text == "-" or head.text.startswith("- "):
        return _sequence(lines, at)
    if head.text[0] not in "[{" and _KEY.fullmatch(head.text):
        return _mapping(lines, at)
    end = at + 1
    while end < len(lines) and lines[end].indent >= head.indent:
        end += 1
    return _inline(lines[at:end]), end


def _sequence(lines: list[_Line], at: int) -> tuple[list[Any], int]:
    indent, out = lines[at].indent, []
    while at < len(lines) and lines[at].indent == indent and re.match(r"-( |$)", lines[at].text):
        number, _, text = lines[at]
        body = text[1:].lstrip()
        if body:
            lines[at] = _Line(number, indent + len(text) - len(body), body)
            value, at = _block(lines, at)
        else:
            value, at = _below(lines, at + 1, indent + 1)
        out.append(value)
    return out, at


def _mapping(lines: list[_Line], at: int) -> tuple[dict[str, Any], int]:
    indent, out = lines[at].indent, dict[str, Any]()
    while at < len(lines) and lines[at].indent == indent:
        number, _, text = lines[at]
        found = _KEY.fullmatch(text)
        if found is None or re.match(r"-( |$)", text):
            break
        key, body = str(_scalar(found[1], number)), found[2]
        if key in out:
            raise NotPlain(number, f"a second {key!r}")
        if body:
            end = at + 1
            while end < len(lines) and lines[end].indent > indent:
                end += 1
            out[key] = _inline([_Line(number, indent, body), *lines[at + 1 : end]])
            at = end
        else:
            dash = at + 1 < len(lines) and re.match(r"-( |$)", lines[at + 1].text)
            out[key], at = _below(lines, at + 1, indent if dash else indent + 1)
    return out, at


def _below(lines: list[_Line], at: int, least: int) -> tuple[Any, int]:
    """The value on the lines below, where they are indented enough."""
    return _block(lines, at) if at < len(lines) and lines[at].indent >= least else (None, at)


def _inline(lines: list[_Line]) -> Any:
    """A scalar or a flow value, whatever lines it is folded over."""
    number, text = lines[0].number, " ".join(line.text for line in lines)
    if text[0] not in "[{":
        return _scalar(text, number)
    tokens, at = [], 0
    while text[at:].strip():
        found = _TOKEN.match(text, at)
        if found is None:
            raise NotPlain(number, "not YAML")
        tokens.append(found[1].strip())
        at = found.end()
    value, rest = _flow(tokens, 0, number)
    if rest < len(tokens):
        raise NotPlain(number, f"{tokens[rest]!r} after the end of a value")
    return value


def _flow(tokens: list[str], at: int, number: int) -> tuple[Any, int]:
    if at >= len(tokens):
        raise NotPlain(number, "a bracket that is not closed")
    opened = tokens[at]
    if opened not in ("[", "{"):
        if opened in ("]", "}", ",", ":"):
            raise NotPlain(number, f"{opened!r} where a value belongs")
        return _scalar(opened, number), at + 1
    listed: list[Any] = []
    named: dict[str, Any] = {}
    at += 1
    closing = "]" if opened == "[" else "}"
    while tokens[at : at + 1] != [closing]:
        value, at = _flow(tokens, at, number)
        if opened == "{":
            if tokens[at : at + 1] != [":"]:
                raise NotPlain(number, f"no value for {value!r}")
            named[str(value)], at = _flow(tokens, at + 1, number)
        else:
            listed.append(value)
        if tokens[at : at + 1] == [","]:
            at += 1
        elif tokens[at : at + 1] != [closing]:
            raise NotPlain(number, "a bracket that is not closed")
    return (listed if opened == "[" else named), at + 1


def _scalar(text: str, number: int) -> str:
    if text[0] == '"':
        if len(text) < 2 or text[-1] != '"':
            raise NotPlain(number, "a quote that is not closed")
        try:
            return str(json.loads(text, strict=False))
        except ValueError as failed:
            raise NotPlain(number, "an escape that is not read here") from failed
    if text[0] == "'":
        if len(text) < 2 or text[-1] != "'":
            raise NotPlain(number, "a quote that is not closed")
        return text[1:-1].replace("''", "'")
    if text[0] in "&*!|>%@`]}":
        raise NotPlain(number, f"{text[0]!r} is not read here")
    return text
