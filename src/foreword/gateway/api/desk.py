"""The desk: what a route works with, namely the gateway and the person whose token it was."""

import asyncio
import os
import sqlite3
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, TypeVar

from fastapi import Depends, Request, Security
from fastapi.security import HTTPBearer

from foreword.assembly import Assembly
from foreword.config.schema import Config
from foreword.errors import InputError
from foreword.events.asking import ask
from foreword.events.event import Reader
from foreword.events.reader import find_reader
from foreword.frozen import frozen
from foreword.gateway.api.faults import Fault
from foreword.gateway.channels.web import CHANNEL
from foreword.gateway.projects import open_project
from foreword.tools.equipped import equip_person
from foreword.trust import resolve
from foreword.trust.clearance import bound_of_situation
from foreword.turn import Turn
from foreword.words import Trust
from foreword.workspace import STATE

if TYPE_CHECKING:
    from foreword.gateway.gateway import Gateway

PRIVATE = "dm"  # a token is one person's, so what it asks for is between that person and the agent
T = TypeVar("T")


@frozen
class Desk:
    """One person's request."""

    gateway: "Gateway"
    user: str
    token: str
    """The id of the token; idempotency keys belong to it."""
    request_id: str

    @property
    def config(self) -> Config:
        """The configuration in force."""
        return self.gateway.workspace.config

    @property
    def now(self) -> datetime:
        """The time."""
        return self.gateway.workspace.memory.now()

    @property
    def folder(self) -> str:
        """Where the state lies."""
        return os.path.join(self.gateway.workspace.files.root, STATE)

    def choose_situation(self, named: str | None) -> str:
        """Choose the situation of a request: a private chat, unless it names one that allows less."""
        if not named or named == PRIVATE:
            return PRIVATE
        own, other = (bound_of_situation(name, self.config) for name in (PRIVATE, named))
        if other.level >= own.level and named in self.config.situations:
            message = f"a request can only lower its situation, and {named} allows no less than {PRIVATE}"
            raise Fault(422, message, param="situation")
        return named

    def make_turn(self, situation: str | None = None) -> Turn:
        """Make the turn that stands for what this person may see now."""
        return Turn(user=self.user, channel=CHANNEL, situation=self.choose_situation(situation))

    def find_clearance(self, situation: str | None = None) -> Trust:
        """Find what this person may see now."""
        return resolve(self.make_turn(situation), self.config).level

    def make_reader(self, situation: str | None = None) -> Reader:
        """Make the reader as whom this person asks the log."""
        return find_reader(self.make_turn(situation), self.find_clearance(situation), self.config)

    def open_project(self, path: str | None, agent: str | None, situation: str | None = None) -> str:
        """Find the directory of a project that this person may open with an agent; refuse any other."""
        if not path:
            return ""
        name, root = agent or next(iter(self.config.agents)), self.gateway.workspace.files.root
        try:
            return open_project(path, name, self.find_clearance(situation), self.config, root).path
        except InputError as error:
            raise Fault(422, str(error), param="project") from None

    async def assemble(self, situation: str | None = None) -> Assembly:
        """Assemble the turn that stands for what this person may see now."""
        return equip_person(await self.gateway.assemble(self.make_turn(situation)))

    async def ask(self, question: Callable[[sqlite3.Connection], T]) -> T:
        """Ask the log, in a thread, since it may be long."""
        answer, _ = await asyncio.to_thread(ask, self.folder, question)
        return answer


bearer = HTTPBearer(auto_error=False, description="A token of `foreword token create`; it says who asks.")


def sit_down(request: Request, _: Annotated[object, Security(bearer)] = None) -> Desk:
    """Return what a route works with for an authenticated request."""
    state = request.state
    return Desk(gateway=request.app.state.gateway, user=state.user, token=state.token, request_id=state.request_id)


AtDesk = Annotated[Desk, Depends(sit_down)]
