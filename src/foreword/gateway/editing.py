"""An edit of a file: a text that it has or would have, and what a session that begins with it would cost."""

import os
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from hashlib import sha256

from foreword.assembly import Assembly
from foreword.config.schema import Config
from foreword.errors import InputError
from foreword.frozen import frozen
from foreword.ledger import NOTHING_FROZEN
from foreword.ledger.calibration import Calibration
from foreword.prices import Request, estimate, find_prices, measure_prefix
from foreword.sources.document import Trouble
from foreword.sources.files import LARGEST
from foreword.sources.own_memory import find_own_person
from foreword.sources.trace import is_internal
from foreword.tools.equipped import find_equipped
from foreword.turn import Turn
from foreword.workspace import Workspace


@frozen(eq=True)
class Edit:
    """A text that a file has, or would have; none where it is gone."""

    path: str
    text: str | None
    saved: bool = True
    """Whether the file has it already."""
    closed: bool = False
    """Whether the file was not opened, since not everybody may: a turn opens it, if its clearance may."""

    @property
    def sha256(self) -> str:
        """The name of this edit; the next one has another."""
        return sha256((self.text or "").encode()).hexdigest()

    @property
    def texts(self) -> Mapping[str, str | None]:
        """What has to be supposed for it."""
        return {} if self.saved else {self.path: self.text}


@frozen(eq=True)
class Fresh:
    """What a session costs that begins with an edit."""

    agent: str
    user: str
    model: str
    tokens: int
    """What its first call is sent before anybody speaks: tools and prompt."""
    prefix: int
    """How much of it stays in the provider's cache."""
    own: int
    """How much of it is there because of the file."""
    cold_usd: float | None
    """What the first call costs; none where no price is known."""
    warm_usd: float | None
    """What each further call costs."""


def find_edit(workspace: Workspace, path: str, asker: str, text: str | None = None) -> Edit:
    """Find an edit: the text of a file as it is on the disk, or one that it would have.

    A file of a person's own memory is opened for that person alone.
    """
    files = workspace.files
    place = files.locate(path)
    if is_internal(path):
        raise InputError(f"{path} is in no prompt: it is a part of the configuration or the state")
    if {find_own_person(path), find_own_person(files.find_target(path))} - {"", asker}:
        raise InputError(f"{path} is in no prompt of {asker}: it is another person's own memory")
    if os.path.isdir(place):
        raise InputError(f"{path} is a folder; name a file in it")
    if text is not None:
        if len(text.encode()) > LARGEST:
            raise InputError(f"the text for {path} has more than {LARGEST:,} bytes, and no more are read of a file")
        return Edit(path=path, text=text, saved=files.read_text(path) == text)
    found = files.read_text(path)
    if isinstance(found, Trouble):
        raise InputError(f"{path} {found.reason}")
    return Edit(path=path, text=found)


def leave_closed(workspace: Workspace, path: str, text: str | None = None) -> Edit:
    """Take an edit as it is named, and look at nothing: for somebody who may not see every file."""
    workspace.files.locate(path)
    return Edit(path=path, text=text, saved=text is None, closed=True)


def find_place(path: str, config: Config) -> Turn:
    """Find who would meet a file: by the folder in which it lies, else the owner in a private chat."""
    folder, _, rest = path.partition("/")
    name = rest.partition("/")[0].removesuffix(".md")
    usual = Turn(agent=next(iter(config.agents)), user=config.owner, situation="dm")
    if folder == "agents" and name in config.agents:
        return replace(usual, agent=name)
    if folder == "users" and name in config.users:
        return replace(usual, user=name)
    if folder == "channels" and name:
        return replace(usual, channel=name)
    if folder == "groups" and name in config.rooms:
        return replace(usual, room=name, situation=config.rooms[name].situation)
    return usual


def foresee(
    workspace: Workspace, edit: Edit, place: Turn, calibrations: Mapping[str, Calibration], now: datetime
) -> Fresh | None:
    """Foresee what a session costs that begins in a place; nothing where its prompt does not depend on the file."""
    config = workspace.config
    agent = place.agent or next(iter(config.agents))
    turn = replace(place, agent=agent, tools=find_equipped(config.agents[agent].folders), now=now)
    supposed = (edit.texts, {edit.path: None})
    assembly, without = (workspace.suppose(texts)(turn, NOTHING_FROZEN) for texts in supposed)
    if assembly.prompt.text == without.prompt.text:
        return None
    facts = assembly.terms.meter.facts
    known = calibrations.get(facts.name, Calibration(model=facts.name))
    return weigh(assembly, assembly.used - without.used, known, config, now)


def weigh(assembly: Assembly, own: int, known: Calibration, config: Config, now: datetime) -> Fresh:
    """Weigh a prompt that nobody has sent yet."""
    turn, facts = assembly.turn, assembly.terms.meter.facts
    prices = find_prices(facts.name, config.models, Request(tokens=assembly.used, now=now))
    cost = estimate(assembly, prices) if prices else None
    return Fresh(
        agent=turn.agent,
        user=turn.user,
        model=facts.name,
        tokens=known.correct(assembly.used),
        prefix=known.correct(measure_prefix(assembly)),
        own=round(own * (known.ratio if known.calls else 1)),
        cold_usd=cost.cold_usd * known.ratio if cost else None,
        warm_usd=cost.warm_usd * known.ratio if cost else None,
    )
