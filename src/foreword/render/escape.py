"""Escaping: no text can open or close a section that is not its own."""

import re
from collections.abc import Iterable

from foreword.blueprint.slot import Rendering, Voice

# Spaces, and characters that a reader of the prompt would not see, stand for nothing before a heading or in a tag.
SPACE = (
    "\\x00-\\x08\\x0e-\\x1f\\x7f-\\x9f \\t\\u00a0\\u00ad\\u034f\\u061c\\u115f\\u1160\\u1680\\u17b4"
    "\\u17b5\\u180b-\\u180f\\u2000-\\u200f\\u202a-\\u202f\\u205f-\\u206f\\u2800\\u3000\\u3164\\ufe00-\\ufe0f\\ufeff\\uffa0\\ufff0-\\ufffb"
    "\\U0001d173-\\U0001d17a\\U000e0000-\\U000e0fff"
)
BLANK = f"[{SPACE}]*"
HEADING = re.compile(rf"^({BLANK})(#{{1,6}}(?=[\s#{SPACE}]|$))", re.MULTILINE)
UNDERLINE = re.compile(rf"^({BLANK})((?:=+|-+|_{{3,}}|\*{{3,}}){BLANK})$", re.MULTILINE)
KEPT = 1_024  # escaped texts that are remembered
LISTING_TAGS = ("available_skills", "skill")
OPENINGS = ("Active Signal:",)  # headings that go on with what is known only in the turn


class Guard:
    """Escapes texts for one rendering, with the headings and tags that belong to it."""

    def __init__(self, rendering: Rendering, titles: Iterable[str]) -> None:
        self._rendering = rendering
        self._known: dict[tuple[str, Voice], str] = {}
        names = sorted({title.strip() for title in titles if title.strip()}, key=lambda name: (-len(name), name))
        tags = "|".join(map(re.escape, [*LISTING_TAGS, *(names if rendering is Rendering.XML else ())]))
        gap = rf"[\s{SPACE}]*"
        self._tag = re.compile(rf"<(?={gap}/?{gap}(?:{tags})(?:[\s/>{SPACE}]|$))", re.IGNORECASE)
        heads = "|".join(map(re.escape, names)) or r"(?!)"
        several = re.MULTILINE | re.IGNORECASE
        openings = f"(?:{'|'.join(map(re.escape, OPENINGS))}).*"
        known = rf"(?:{heads})[{SPACE}#]*|{openings}"
        self._reserved = re.compile(rf"^({BLANK})(#{{1,6}}[{SPACE}]+(?:{known}))$", several)
        above = rf"(?:{heads}){BLANK}|{openings}"
        self._underlined = re.compile(rf"^({BLANK}(?:{above})\n)({BLANK}(?:=+|-+){BLANK})$", several)

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

    def escape_tags(self, text: str) -> str:
        """Keep a title, which is one line, from holding one of our tags."""
        return self._tag.sub("&lt;", text) if "<" in text else text

    def _escape(self, text: str, voice: Voice) -> str:
        text = self.escape_tags(text)
        if self._rendering is not Rendering.MARKDOWN:
            return text
        if voice is Voice.OWNER:
            text = self._reserved.sub(r"\1\\\2", text) if "#" in text else text
            return self._underlined.sub(r"\1\\\2", text) if "\n" in text else text
        return UNDERLINE.sub(r"\1\\\2", HEADING.sub(r"\1\\\2", text))
