"""Property of erasure: no file contains a word of the forgotten person, and all words of others remain."""

import os
import tempfile

from hypothesis import example, given, settings
from hypothesis import strategies as st
from people import People, find_token, read_all, sentence

from foreword.engine.trust import Audience
from foreword.privacy.erasure import erase_person, preview_erasure
from foreword.storage.agents import find_instructions, replace_instructions
from foreword.testing import write_files
from foreword.types import Trust

NAMES = ("bob", "carol", "dave", "telegram:9")
ROOMS = ({}, {"room": "kitchen", "situation": "group", "channel": "telegram"}, {"room": "hall", "situation": "group"})
KINDS = ("say", "say", "say", "quote", "remember", "own", "overhear", "file", "sum", "instruct", "promote", "archive")
STEPS = st.lists(
    st.tuples(st.sampled_from(KINDS), st.sampled_from(NAMES), st.sampled_from((0, 1, 1, 2))), min_size=4, max_size=14
)


class Story:
    """A generated sequence of actions, with the tokens of each person."""

    def __init__(self, folder):
        self.people = People(folder)
        self.tokens = {name: [] for name in (*NAMES, "alice")}
        self.said = []
        self.rooms = {}

    def plant(self, name):
        """Create a token that belongs to one person."""
        token = f"zq{len(self.tokens[name])}{name.replace(':', '')}qz"
        self.tokens[name].append(token)
        return token

    def add_step(self, kind, name, place):
        """Perform one action of a person."""
        people, where = self.people, ROOMS[place]
        if kind == "say":
            text = sentence(self.plant(name))
            self.said.append(text)
            self.rooms[place] = people.talk(name, text, f"Noted, {self.plant(name)}.", **where)
        elif kind == "quote" and self.said:
            quoted = self.said[-1 - len(self.said) // 2]
            reply = f"Somebody said: {quoted}. That is {self.plant(name)}."
            self.rooms[place] = people.talk(name, f"What was said, {self.plant(name)}?", reply, **where)
        elif kind in {"remember", "own"} and name.isalpha():  # strangers have no memory tools
            keep = people.keep_own if kind == "own" else people.remember
            keep(name, sentence(self.plant(name)))
        elif kind == "promote" and name.isalpha():
            path = people.remember(name, sentence(token := self.plant(name)))
            people.workspace.memory.promote(path, f"social/{token}.md", Audience(clearance=Trust.FULL), "alice")
        elif kind == "overhear":
            row = (None, "telegram", "kitchen", name, name, sentence(self.plant(name)), "now", None)
            people.do(lambda state: state.execute("INSERT INTO overheard VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row))
        elif kind == "file" and name.isalpha():
            write_files(people.folder, {f"users/{name}/{self.plant(name)}.md": sentence(self.plant(name))})
        elif kind in {"sum", "archive"} and place in self.rooms:
            self.wind_up(kind, place)
        elif kind == "instruct":
            text = sentence(self.plant(name))
            if people.do(lambda state: find_instructions(state, name, "reid")):
                self.tokens[name].pop()  # instructions are not replaced
            else:
                people.do(lambda state: replace_instructions(state, name, "reid", text))

    def wind_up(self, kind, place):
        """Compact a room, or archive the last session of a place."""
        session = self.rooms[place]
        if kind == "sum" and place:
            self.people.sum_up(session, " ".join(self.said))
        elif kind == "archive" and ":" not in session.key.user:  # strangers have no folder
            self.people.archive(session)


@settings(max_examples=100 if os.environ.get("FOREWORD_SOAK") else 6)
@example(
    steps=[
        ("remember", "telegram:9", 0), ("say", "telegram:9", 1), ("say", "dave", 1), ("sum", "bob", 1),
        ("quote", "carol", 1), ("overhear", "telegram:9", 1), ("say", "carol", 1), ("instruct", "telegram:9", 0),
    ],
    who="telegram:9",
)  # fmt: skip
@example(
    steps=[
        ("say", "bob", 0),
        ("quote", "carol", 0),
        ("archive", "carol", 0),
        ("quote", "dave", 2),
        ("archive", "dave", 2),
    ],
    who="bob",
)
@given(steps=STEPS, who=st.sampled_from(NAMES))
def test_nothing_is_left(steps, who):
    """After any sequence of messages, memories and quotations, erasure removes the words of one person only."""
    with tempfile.TemporaryDirectory() as folder:
        story = Story(os.path.join(folder, "ws"))
        people = story.people
        people.talk("alice", sentence(story.plant("alice")), f"Yes, {story.plant('alice')}.")
        for step in steps:
            story.add_step(*step)
        if story.tokens[who]:
            report = erase_person(people.house, who, 1.0)
            assert report.done
            assert look_again(people.house, who) == 0
        left = b"".join([*read_all(people.folder).values(), *(path.encode() for path in read_all(people.folder))])
        assert [
            token for token in story.tokens[who] if find_token(people.folder, token) or token.encode() in left
        ] == []
        others = [token for name, tokens in story.tokens.items() if name != who for token in tokens]
        assert [token for token in others if token.encode() not in left] == []
        people.close()


def look_again(house, who):
    """Count the remaining rows of a user who may be unknown by now."""
    from foreword.errors import UnknownName

    try:
        return preview_erasure(house, who).found
    except UnknownName:
        return 0
