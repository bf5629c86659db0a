"""What a person's own device says of them: their zone, their languages, and where they are.

It is text from outside, so it is bounded, and holds no sign that nobody sees.
"""

import re
from typing import Annotated

from fastapi import Header

from foreword.gateway.api.shapes import Device
from foreword.gateway.checking import LONGEST_FACT
from foreword.sources.document import one_line
from foreword.turn import Client

# A list of language tags with weights, as a browser sends it; whatever else the header says is ignored.
_TAG = r"[A-Za-z]{1,8}(?:-[A-Za-z0-9]{1,8}){0,3}(?:;q=[01](?:\.[0-9]{0,3})?)?"
TAGS = re.compile(rf"{_TAG}(?:,{_TAG}){{0,9}}(?=,|$)")

Languages = Annotated[
    str | None, Header(alias="Accept-Language", description="The languages of the person, as their browser sends them.")
]


def read_device(told: Device | None, languages: str | None) -> Client:
    """Read what a device says, and what its browser says of languages."""
    if told is None:
        return Client(language=read_languages(languages))
    return Client(
        zone=show(told.zone),
        language=show(told.language) or read_languages(languages),
        location=show(told.location),
    )


def show(text: str) -> str:
    """Put a fact on one line of signs that can be seen."""
    return "".join(sign for sign in one_line(text) if sign.isprintable())


def read_languages(header: str | None) -> str:
    """Read the languages that a browser names, those it names first where there are many."""
    plain = (header or "").replace(" ", "")
    found = TAGS.match(plain)
    return found[0] if found and len(found[0]) <= LONGEST_FACT else ""
