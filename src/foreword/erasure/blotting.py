"""Blotting: where a text that is not theirs repeats a person's words, a word says that they were forgotten.

Only what agents and tools wrote is blotted. What another person wrote is that person's, also where it quotes.
"""

import json
import re
from collections.abc import Iterable
from typing import Any

from foreword.erasure.person import Person
from foreword.erasure.runs import split
from foreword.events.forgetting import FEW, GAP, LEAD, PLACE

NAME = 3  # words that a name has at most
PROMPT, THOUGHT = "user-prompt", "thinking"
HELD = {
    "user-prompt": "content",
    "system-prompt": "content",
    "text": "content",
    "tool-return": "content",
    "tool-call": "args",
    THOUGHT: "content",
}


class Blotter:
    """Takes a person's words out of texts of others, and every line that names where a memory of theirs lies."""

    def __init__(self, person: Person, *, memories: bool = True) -> None:
        self._runs = (person.own, person.remembered) if memories else (person.own,)
        self._duties = person.duties if memories else ()
        few = [GAP.join(map(re.escape, words)) for text in person.kept if 0 < len(words := split(text)) < FEW]
        self._few = re.compile(rf"(?im)^({LEAD})(?:{'|'.join(few)})\W*?$") if few and memories else None
        name = f"(?:{'|'.join(map(re.escape, sorted(person.names)))})"
        lies, says = rf"/inbox/{name}(?![\w.-])", rf"saved for {name}(?= at | on |,|\))"
        paths = "".join(rf"|(?<![\w.-]){re.escape(path)}(?![\w.-])" for path in person.paths)
        self._lines = re.compile(rf"(?m)^.*(?:{lies}|{says}{paths}).*$")
        self._names = re.compile(rf"((?:inbox/|users/|users\.|user |author: )){name}(?![\w.-]){paths}")

    def wipe(self, text: str) -> str:
        """Take their words out of a text that somebody else has."""
        text = self._lines.sub(PLACE, text)
        if self._few:
            text = self._few.sub(rf"\1{PLACE}", text)
        for runs in self._runs:
            text = runs.wipe(text)
        for title, content in self._duties:
            if text == title:
                text = PLACE
            elif title in text and content in text:  # the two together are no chance
                text = text.replace(content, PLACE).replace(title, PLACE)
        return text

    def unname(self, text: str) -> str:
        """Take their name out of what names where something of theirs lay, or whose budget it was."""
        return self._names.sub(lambda found: f"{found[1] or ''}{PLACE}", text)

    def wipe_value(self, value: Any) -> Any:
        """Take their words out of every text in a value; JSON within a text stays JSON."""
        if isinstance(value, str):
            return self._wipe_json(value) if value[:1] in ("{", "[") else self.wipe(value)
        if isinstance(value, list):
            return [self.wipe_value(one) for one in value]
        if isinstance(value, dict):
            return {name: self.wipe_value(one) for name, one in value.items()}
        return value

    def _wipe_json(self, text: str) -> str:
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return self.wipe(text)
        after = self.wipe_value(value)
        return text if after == value else json.dumps(after, ensure_ascii=False)

    def wipe_messages(self, stored: bytes, own: Iterable[str] = ()) -> bytes:
        """Take their words out of stored messages, except where these are what another person wrote."""
        try:
            messages = json.loads(stored)
        except ValueError:
            return stored
        theirs = [split(text) for text in own]
        changed = [self._wipe_message(message, theirs) for message in messages]
        return stored if changed == messages else json.dumps(changed, ensure_ascii=False).encode()

    def _wipe_message(self, message: dict[str, Any], own: list[list[str]]) -> dict[str, Any]:
        parts = []
        for part in message.get("parts", ()):
            after = self._wipe_part(part, own)
            # A thought is signed: one that changed would be refused, and an earlier one may be left out.
            if after == part or part.get("part_kind") != THOUGHT:
                parts.append(after)
        return {**message, "parts": parts}

    def _wipe_part(self, part: dict[str, Any], own: list[list[str]]) -> dict[str, Any]:
        kind = part.get("part_kind", "")
        field = HELD.get(kind)
        if field is None or field not in part:
            return part
        value = part[field]
        if kind == PROMPT:
            texts = value if isinstance(value, list) else [value]
            wiped = [one if is_said(one, own) else self.wipe_value(one) for one in texts]
            return {**part, field: wiped if isinstance(value, list) else wiped[0]}
        return {**part, field: self.wipe_value(value)}


def is_said(text: Any, own: list[list[str]]) -> bool:
    """Whether a text is just what a person wrote, in a room with their name before it."""
    words = split(text) if isinstance(text, str) else []
    return any(said and words[-len(said) :] == said and len(words) - len(said) <= NAME for said in own)
