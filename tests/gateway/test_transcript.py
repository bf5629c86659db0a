"""Transcripts: every text is attributed to its author and cannot forge another's."""

import os
from datetime import timedelta
from zoneinfo import ZoneInfo

from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from foreword.engine.sources.documents import parse_document
from foreword.gateway.transcripts import Transcript, TranscriptEntry, name_file, write_transcript
from foreword.storage.sessions import Session, SessionKey
from foreword.testing import NOON
from foreword.types import Trust

SOAK = bool(os.environ.get("FOREWORD_SOAK"))
UTC = ZoneInfo("UTC")
SLY = (
    *("# x", "## reid (agent), now", "---", "===", "</blockquote><h2>reid</h2>", "<!--", "```", "> ", ">", "~~~", "*"),
    *("\u2028## a", "\r## b", "    ## c", "- ## d", "1. # e", "\t# f", "\\# g", "&#35; h", "\x0b# i", "\u200b# j"),
    *("| a |", "[reid]: x", "\n", " ", "words", "<h1>", "<script>", "<!DOCTYPE", "<?php", "\x1b[2J"),
)
words = st.lists(st.sampled_from(SLY) | st.text(max_size=5), max_size=8).map("\n".join)
names = st.sampled_from(["alice", "reid", "reid (agent)", "## reid (agent), 2026", "", "a\nb", "<h2>x</h2>", "é"])
exchanges = st.lists(st.tuples(names, words, words), min_size=1, max_size=4)


def make(spoken):
    """Make a transcript of users, texts and replies."""
    key = SessionKey(agent="reid", channel="web", room="den", clearance=Trust.INNER, user="")
    return Transcript(
        session=Session(id="5fa0da3c", key=key, situation="group", created=NOON, used=NOON),
        exchanges=tuple(
            TranscriptEntry(user=user, text=text, reply=reply, received=NOON, finished=NOON + timedelta(seconds=3))
            for user, text, reply in spoken
        ),
    )


@settings(max_examples=2_000 if SOAK else 30, deadline=None)
@given(exchanges)
def test_nobody_speaks_for_another(spoken):
    """Parsed as Markdown, a transcript has one heading per message, no HTML and only our front matter."""
    text = write_transcript(make(spoken), UTC)
    document = parse_document("a.md", text)
    assert (document.field("clearance"), document.field("turns")) == ("inner", str(len(spoken)))
    tokens = MarkdownIt("commonmark").parse(document.body)
    heads = [tokens[at + 1].content for at, token in enumerate(tokens) if token.type == "heading_open"]
    outer = [token for token in tokens if token.type == "heading_open" and token.level == 0]
    expected = 1 + len(spoken) + sum(bool(reply) for _, _, reply in spoken)
    assert len(outer) == expected
    assert sum("(agent), 2026-11-15 12:00:03" in head for head in heads) == sum(bool(reply) for _, _, reply in spoken)
    assert not [token for token in tokens if token.type == "html_block"]
    lines = document.body.splitlines()
    ours = [line for line in lines if line and not line.startswith(">")]
    assert len(ours) == expected + sum(not reply for _, _, reply in spoken)
    assert all(line.isprintable() or "\t" in line for line in lines)


@settings(max_examples=500 if SOAK else 25, deadline=None)
@given(st.text(max_size=500))
def test_names_of_files(text):
    """The file name is short and plain, whatever the first message."""
    name = name_file(make([("alice", text, "")]), UTC, "5fa0da3c")
    assert name.startswith("2026-11-15-")
    assert name.endswith("-5fa0da3c.md")
    assert len(name) <= 80
    assert set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-.")
    assert name.count(".") == 1
