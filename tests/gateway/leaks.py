"""A workspace with many people, private chats and rooms, planted facts, and a model that repeats all it sees.

Each fact is a unique word. Its permitted audience is defined here from the rules alone, without the program: a fact
has grants, and a turn may contain it if a grant matches the turn's clearance, person and room. The model calls every
tool it is offered, and some that it is not, with all names it knows, and repeats every fact it is shown: all that
reaches the model reaches the audience.
"""

import json
import random
import re
import threading
from dataclasses import dataclass

from foreword.testing import ScriptedCall, ScriptedReply
from foreword.types import Trust

PUBLIC, FAMILIAR, INNER, FULL = Trust
FACT = re.compile(r"zq[a-z]{9}")
CONFIG = """\
owner: alice
agents: {reid: {model: "anthropic:claude-sonnet-5"}}
users:
  alice: {trust: full, timezone: UTC, identities: ["telegram:1"]}
  carol: {trust: full, identities: ["telegram:2"]}
  ines: {trust: inner, identities: ["telegram:3"]}
  bob: {trust: familiar, identities: ["telegram:4"]}
  dan: {trust: public, identities: ["telegram:5"]}
situations:
  dm: {ceiling: full}
  system: {ceiling: full}
  group: {ceiling: familiar, prompt_overlay: prompts/group.md}
  family: {ceiling: inner}
  lobby: {ceiling: public}
rooms:
  home: {situation: family, places: ["telegram:-1"], members: [alice, ines, bob]}
  club: {situation: group, places: ["telegram:-2"]}
  attic: {situation: family, ceiling: public, places: ["telegram:-3"]}
  square: {situation: lobby, places: ["telegram:-4"]}
prompt: {files: [{path: NOTES.md, trust: inner}]}
memory: {recall: true}
archive: true
"""
TRUST = {"alice": FULL, "carol": FULL, "ines": INNER, "bob": FAMILIAR, "dan": PUBLIC}
SENDERS = {"alice": "1", "carol": "2", "ines": "3", "bob": "4", "dan": "5", "telegram:6": "6", "telegram:7": "7"}


@dataclass(frozen=True)
class Somewhere:
    """A place where people talk, with its ceiling."""

    channel: str
    ceiling: Trust
    situation: str = "dm"
    room: str = ""
    id: str = ""
    members: tuple[str, ...] = (*SENDERS, "")

    def clear(self, person):
        """Return the clearance of a person here."""
        return min(TRUST.get(person, PUBLIC), self.ceiling) if person in self.members else PUBLIC


PLACES = [
    Somewhere("web", FULL),
    Somewhere("web", FAMILIAR, "group"),  # a group without a room
    Somewhere("web", PUBLIC, "nowhere"),
    Somewhere("telegram", FULL),
    Somewhere("telegram", INNER, "family", "home", "-1", ("alice", "ines", "bob")),
    Somewhere("telegram", FAMILIAR, "group", "club", "-2"),
    Somewhere("telegram", PUBLIC, "family", "attic", "-3"),
    Somewhere("telegram", PUBLIC, "lobby", "square", "-4"),
    Somewhere("telegram", FAMILIAR, "group", "telegram:-5", "-5"),  # a room that is not configured
]


@dataclass(frozen=True)
class Grant:
    """The audience of a fact: from a clearance on, optionally one person only, optionally one room only."""

    level: Trust
    person: str | None = None
    room: str | None = None


@dataclass(frozen=True)
class Asked:
    """A message: its sender, its place, and its clearance by the rules."""

    person: str
    place: Somewhere
    clearance: Trust

    @property
    def company(self):
        """Whether others read the reply."""
        return bool(self.place.room) or self.place.situation == "group"

    @property
    def room(self):
        """The room; a group without a room counts as a room of one person."""
        return self.place.room or ("company" if self.company else None)

    def share(self):
        """Return the grant of a fact that is said here."""
        if self.place.room:
            return Grant(PUBLIC, room=self.room)
        return Grant(self.clearance, person=self.person, room=self.room)

    def may_meet(self, grant):
        """Return whether a grant matches this message; a grant of one person does not match a group elsewhere."""
        here = grant.room == self.room if grant.room else not (grant.person and self.company)
        return grant.level <= self.clearance and grant.person in (None, self.person) and here


PLANTED = {
    "SOUL.md": Grant(FAMILIAR),
    "AGENTS.md": Grant(FAMILIAR),
    "TOOLS.md": Grant(FAMILIAR),
    "rules/manners.md": Grant(FAMILIAR),
    "channels/telegram.md": Grant(FAMILIAR),
    "channels/web.md": Grant(FAMILIAR),
    "groups/club/SOUL.md": Grant(FAMILIAR),
    "prompts/group.md": Grant(PUBLIC),
    "NOTES.md": Grant(INNER),
    "BOOT.md": Grant(FULL),
    "HEARTBEAT.md": Grant(FULL),
    "MEMORY.md": Grant(FULL),
    "SECRETS.md": Grant(FULL),
    "USER.md": Grant(INNER, person="alice"),
    "users/carol/USER.md": Grant(INNER, person="carol"),
    "users/ines/USER.md": Grant(INNER, person="ines"),
    "users/bob/USER.md": Grant(INNER, person="bob"),
    "memory/private/house.md": Grant(FULL),
    "memory/shared/people.md": Grant(INNER),
    "memory/social/games.md": Grant(FAMILIAR),
}
TOPICS = ("birthday", "garden", "chess", "boiler", "keys", "ferry", "bread")
NAMED = [*PLANTED, *(path.removeprefix("memory/") for path in PLANTED), "memories.json", "foreword.yaml", "../SOUL.md"]
SECTIONS = ("soul", "user", "boot", "heartbeat", "files:NOTES.md", "instructions", "project", "menu", "time", "tasks")


class World:
    """The planted facts with their grants, and the leaks found."""

    def __init__(self, seed):
        self.dice = random.Random(seed)
        self.grants: dict[str, list[Grant]] = {}
        self.asked: dict[str, Asked] = {}
        self.leaks: list[str] = []
        self.met = 0
        """How often a fact reached somebody who may meet it."""
        self.kept = 0
        """How many facts stand in transcripts."""
        self.lock = threading.Lock()
        self.files = {"foreword.yaml": CONFIG} | {path: self._plant(path, grant) for path, grant in PLANTED.items()}
        self.files["memories.json"] = json.dumps([f"The ferry is {self.make_fact(Grant(INNER))}."])

    def make_fact(self, *grants):
        """Make a fact with grants."""
        fact = "zq" + "".join(self.dice.choices("abcdefghijklmnopqrstuvwxyz", k=9))
        self.grants[fact] = list(grants)
        return fact

    def _plant(self, path, grant):
        text = f"The word for {self.dice.choice(TOPICS)} is {self.make_fact(grant)}.\n"
        return f"---\nname: x\ndescription: y\n---\n{text}" if path.endswith("SKILL.md") else text

    def make_message(self):
        """Make a random message with a fact; return it, the fact and its context."""
        place = self.dice.choice(PLACES)
        person = self.dice.choice([*SENDERS] if place.channel == "telegram" else [*TRUST, ""])
        asked = Asked(person, place, place.clear(person))
        with self.lock:
            # An unnamed person in an unnamed group cannot be recognised by a later turn.
            fact = self.make_fact(asked.share()) if person or place.room else self.make_fact()
            self.asked[fact] = asked
        topic = self.dice.choice(TOPICS)
        return f"About the {topic}: it is {fact}. What do you know of it?", fact, asked

    def answer(self, body):
        """Reply as the model: call tools, then repeat every fact."""
        with self.lock:
            fact, asked = self._find_asked(body)
            shown = sorted(set(FACT.findall(json.dumps(body))))
            self._judge(asked, fact, shown, "prompt")
            rounds = sum(bool(is_result(message)) for message in body["messages"][find_newest(body) :])
            offered = list(body.get("tools", ()))
            if rounds < self.dice.randrange(4):
                return ScriptedReply(
                    calls=tuple(self._make_call(asked, offered, shown) for _ in range(self.dice.randint(1, 3)))
                )
            text = f"All I know: {' '.join(shown)}"
            self._spread(asked, shown)
            return ScriptedReply(text=text)

    def hear(self, asked, own, text):
        """Check a reply that a person got."""
        with self.lock:
            self._judge(asked, own, FACT.findall(text), "reply")

    def receive(self, address, text):
        """Check a message that was delivered to an address, for all its readers."""
        place = next((one for one in PLACES if one.id == address), PLACES[3])
        person = "" if place.id else next(person for person, sender in SENDERS.items() if sender == address)
        self.hear(Asked(person, place, place.clear(person)), "", text)

    def open(self, archive, text):
        """Check a transcript for its readers: its person alone, or its room, at the clearance of its row."""
        if archive.user:  # private, or in a group without a room
            place = PLACES[1] if archive.room else PLACES[0]
        else:
            found = (one for one in PLACES if one.room == archive.room)
            place = next(found, Somewhere(archive.channel, PUBLIC, room=archive.room))
        reader = Asked(archive.user, place, archive.clearance)
        for fact in FACT.findall(text):
            self.kept += 1
            if not any(reader.may_meet(grant) for grant in self.grants.get(fact, ())):
                self.leaks.append(f"{fact} of {self.grants.get(fact)} in the transcript {archive}")

    def _find_asked(self, body):
        words = json.dumps(body["messages"][find_newest(body)])
        fact = next(fact for fact in reversed(FACT.findall(words)) if fact in self.asked)
        return fact, self.asked[fact]

    def _judge(self, asked, own, shown, where):
        for fact in shown:
            if fact == own:
                continue
            if any(asked.may_meet(grant) for grant in self.grants.get(fact, ())):
                self.met += 1
            else:
                self.leaks.append(
                    f"{fact} of {self.grants.get(fact)} in a {where} of {asked.person or 'a stranger'} "
                    f"in {asked.place} at {asked.clearance}"
                )

    def _spread(self, asked, shown):
        """A fact becomes known where it was said."""
        if asked.person or asked.place.room:
            for fact in shown:
                self.grants[fact].append(asked.share())

    def _make_call(self, asked, offered, shown):
        if not offered or self.dice.random() < 0.1:  # it also tries tools that it is not offered
            path = self.dice.choice(NAMED)
            return ScriptedCall(name=self.dice.choice(("memory_get", "read_file")), arguments={"path": path})
        tool = self.dice.choice(offered)
        properties = tool["input_schema"].get("properties", {})
        arguments = {name: self._make_argument(name, kind, shown) for name, kind in properties.items()}
        said = FACT.findall(json.dumps(arguments))
        keep = self._find_keeping(asked, tool["name"])
        for fact in said:
            self.grants[fact].append(keep)
        return ScriptedCall(name=tool["name"], arguments=arguments)

    def _find_keeping(self, asked, tool):
        """Return the grant of data that a tool stores: all of a clearance, its person alone, or those present."""
        if "memory" in tool:
            return Grant(asked.clearance)
        own = "schedule" in tool or tool == "notify_user"  # the user is notified in private
        return Grant(asked.clearance, person=asked.person) if own else asked.share()

    def _make_argument(self, name, kind, shown):
        dice, output = self.dice, " ".join(self.dice.sample(shown, min(len(shown), 3)))
        if "enum" in kind:
            return dice.choice(kind["enum"])
        by_kind = {
            "integer": lambda: dice.randint(1, 40),
            "boolean": lambda: dice.random() < 0.5,
            "array": lambda: [{"text": output or "nothing", "status": "open"}],
        }
        by_name = {
            "path": lambda: dice.choice(NAMED),
            "id": lambda: dice.choice(SECTIONS),
            "query": lambda: dice.choice([*TOPICS, *self.grants]),
            "since": lambda: "1h",
            "until": lambda: "today",
        }
        make = by_kind.get(kind.get("type")) or by_name.get(name) or (lambda: output or dice.choice(TOPICS))
        return make()


def find_newest(body):
    """Find the newest user message of a request."""
    return max(
        at for at, message in enumerate(body["messages"]) if message["role"] == "user" and not is_result(message)
    )


def is_result(message):
    """Return whether a message contains tool results."""
    content = message["content"]
    return not isinstance(content, str) and any(part.get("type") == "tool_result" for part in content)
