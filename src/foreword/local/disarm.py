"""Disarms words that an engine would take for the marks of its own template, such as `<|im_start|>`.

An engine finds its marks wherever they stand, so a person who writes one could end their message and begin another in
the name of the system. A space after the first sign leaves the words readable and makes them words.
"""

import re
from collections.abc import Mapping
from functools import cache
from typing import Any


def disarm(body: Mapping[str, Any], control: tuple[str, ...]) -> dict[str, Any]:
    """Return a request in which no text holds a mark."""
    pattern = compile_marks(control)
    if pattern is None:
        return dict(body)
    return {**body, "messages": [disarm_message(message, pattern) for message in body["messages"]]}


def disarm_message(message: Mapping[str, Any], pattern: re.Pattern[str]) -> dict[str, Any]:
    """Disarm the texts of one message."""
    content = message.get("content")
    if isinstance(content, str):
        return {**message, "content": disarm_text(content, pattern)}
    if isinstance(content, list):
        parts = [{**part, "text": disarm_text(part["text"], pattern)} if "text" in part else part for part in content]
        return {**message, "content": parts}
    return dict(message)


def disarm_text(text: str, pattern: re.Pattern[str]) -> str:
    """Disarm a text; marks that overlap, or that appear when another one is parted, are found by looking again."""
    while True:
        calm = pattern.sub(lambda found: f"{found[0][0]} {found[0][1:]}", text)
        if calm == text:
            return text
        text = calm


@cache
def compile_marks(control: tuple[str, ...]) -> re.Pattern[str] | None:
    """Compile the marks of a model; one that would still be itself with a space in it is no concern of ours."""
    marks = sorted((mark for mark in control if " " not in mark), key=len, reverse=True)
    return re.compile("|".join(map(re.escape, marks))) if marks else None
