"""Escaping: no text can open or close a section that is not its own."""

import re
from collections.abc import Iterable

from foreword.blueprint.slot import Rendering, Voice

# Also after spaces and invisible characters, which a reader of the prompt would not see.
BLANK = "[ \\t\\u00a0\\u00ad\\u180e\\u2000-\\u200f\\u202a-\\u202f\\u205f-\\u2069\\u3000\\ufeff]*"
HEADING = re.compile(rf"^({BLANK})(#{{1,6}}(?=[\s#]|$))", re.MULTILINE)
UNDERLINE = re.compile(rf"^({BLANK})((?:=+|-+|_{{3,}}|\*{{3,}})[ \t]*)$", re.MULTILINE)
KEPT = 1_024  # escaped texts that are remembered
LISTING_TAGS = ("available_skills", "skill")


class Guard:
    """Escapes texts for one rendering, with the headings and tags that belong to it."""

    def __init__(self, rendering: Rendering, titles: Iterable[str]) -> None:
        self._rendering = rendering
        self._known: dict[tuple[str, Voice], str] = {}
        names = sorted({title.strip() for title in titles if title.strip()}, key=lambda name: (-len(name), name))
        tags = [*LISTING_TAGS, *(names if rendering is Rendering.XML else ())]
        self._tag = re.compile(rf"<(?=\s*/?\s*(?:{'|'.join(map(re.escape, tags))})(?:[\s/>]|$))", re.IGNORECASE)
        heads = "|".join(map(re.escape, names)) or r"(?!)"
        self._reserved = re.compile(rf"^({BLANK})(#{{1,6}}[ \t]+(?:{heads})[ \t#]*)$", re.MULTILINE | re.IGNORECASE)

    def escape(self, text: str, voice: Voice) -> str:
        """Make a text harmless: all structure from outside, only our own names in the owner's words."""
        if voice is Voice.SYSTEM or self._rendering is Rendering.PLAIN:
            return text
        known = self._known.get((text, voice))
        if known is None:
            if len(self._known) >= KEPT:
                self._known.clear()
            known = self._known[text, voice] = self._escape(text, voice)
        return known

    def _escape(self, text: str, voice: Voice) -> str:
        if "<" in text:
            text = self._tag.sub("&lt;", text)
        if self._rendering is not Rendering.MARKDOWN:
            return text
        if voice is Voice.OWNER:
            return self._reserved.sub(r"\1\\\2", text) if "#" in text else text
        return UNDERLINE.sub(r"\1\\\2", HEADING.sub(r"\1\\\2", text))
