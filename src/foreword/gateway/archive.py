"""The archive: where the transcript of a session lies, and how it gets there whole."""

import os
from hashlib import sha256
from zoneinfo import ZoneInfo

from foreword.config.schema import Config
from foreword.errors import InputError
from foreword.gateway.lane import Lane
from foreword.gateway.transcript import Transcript, name_file, write_transcript
from foreword.memory.entry import drafted
from foreword.names import judge_name
from foreword.sources.archived import CONVERSATIONS
from foreword.sources.clock import find_zone
from foreword.store.archives import Archive

MAX_ROOM_CHARS = 100
ROOM_SIGNS = "._:+@-"
SHORT = 8  # digits of a session's id by which its file is told from others of the same day and words
CLOSED = 0o600  # nobody else on the machine reads it


def find_folder(lane: Lane, config: Config) -> str:
    """Find where the transcripts of a lane lie: with its person, or with its room; nobody's are not kept."""
    if lane.user:
        return f"users/{lane.user}/{CONVERSATIONS}" if lane.user in config.users else ""
    settings = config.rooms.get(lane.room)
    if not lane.room or (settings is None and lane.room.startswith("(")):  # company without a name, and nobody's
        return ""
    group = (settings.group if settings else "") or lane.room
    if len(group) > MAX_ROOM_CHARS or judge_name(group.lstrip("_+@-"), ROOM_SIGNS):
        group = f"room-{sha256(group.encode(errors='replace')).hexdigest()[:12]}"
    return f"groups/{group}/{CONVERSATIONS}"


def find_zone_of(lane: Lane, config: Config) -> ZoneInfo:
    """Find the zone that the people of a lane live by."""
    room, user = config.rooms.get(lane.room), config.users.get(lane.user)
    own = (room.timezone if room else "") or (user.timezone if user else "")
    return find_zone(own or config.host.timezone)[0]


def describe_archive(transcript: Transcript, config: Config) -> Archive:
    """Describe the file that a transcript is to have."""
    lane = transcript.session.lane
    return Archive(
        path=find_path(transcript, config, transcript.session.id[:SHORT]),
        session=transcript.session.id,
        agent=lane.agent,
        channel=lane.channel,
        room=lane.room,
        user=lane.user,
        clearance=lane.clearance,
        people=transcript.people,
        upto=transcript.upto,
    )


def find_other(transcript: Transcript, config: Config) -> str:
    """Find another path for a transcript, where another session has the first one."""
    return find_path(transcript, config, transcript.session.id)


def find_path(transcript: Transcript, config: Config, mark: str) -> str:
    """Find the path of a transcript in the workspace."""
    lane = transcript.session.lane
    return f"{find_folder(lane, config)}/{name_file(transcript, find_zone_of(lane, config), mark)}"


def show(transcript: Transcript, config: Config) -> str:
    """Write a transcript in the time of its people."""
    return write_transcript(transcript, find_zone_of(transcript.session.lane, config))


def write_file(root: str, path: str, text: str) -> None:
    """Put a transcript in its place, whole, over an earlier one of the same session; no link is written through."""
    place = os.path.join(root, *path.split("/"))
    folder = os.path.dirname(place)
    if os.path.realpath(folder) != folder:
        raise InputError(f"{path} lies behind a link, which is not written through")
    os.makedirs(folder, exist_ok=True)
    with drafted(place, text.encode("utf-8", "replace").decode()) as draft:
        os.chmod(draft, CLOSED)
        os.replace(draft, place)
