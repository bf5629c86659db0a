"""Rows of transcripts: the messages of a session, and the sessions to archive or to show."""

import sqlite3
from datetime import datetime
from typing import Any

from foreword.storage.database import fetch_all, format_moment
from foreword.storage.sessions import SESSION_COLUMNS, Session
from foreword.types import Trust

TRANSCRIPT_ROWS = "history JOIN turns ON turns.id = history.turn_id AND history.kind IN ('turn', 'room')"
"""The history rows in a transcript. Messages that were only overheard in a room are excluded."""
SELECT_TRANSCRIPT = f"""
SELECT history.position, iif(history.kind = 'room', history.messages, NULL),
    turns.user_id, turns.text, turns.reply, turns.state, turns.received, turns.finished
FROM {TRANSCRIPT_ROWS} WHERE history.session_id = ? ORDER BY history.position"""
SELECT_DUE_SESSIONS = f"""
SELECT {SESSION_COLUMNS}
FROM sessions LEFT JOIN archives ON archives.session_id = sessions.id
WHERE sessions.used >= ? AND (sessions.user_id != '' OR sessions.room != '')
    AND (SELECT max(position) FROM {TRANSCRIPT_ROWS} WHERE history.session_id = sessions.id)
    > coalesce(archives.upto, 0)
    AND (sessions.current = 0 OR sessions.used < ? OR EXISTS (
        SELECT 1 FROM history
        WHERE session_id = sessions.id AND folded = 1 AND position > coalesce(archives.upto, 0)))
    AND NOT EXISTS (SELECT 1 FROM turns WHERE session_id = sessions.id AND finished IS NULL)
ORDER BY sessions.used"""
# The history of a fork has the turns of its parent. A failed or waiting turn is in no history.
SELECT_TURNS_OF_SESSION = """
SELECT turns.id AS turn, turns.number AS place, NULL AS added FROM turns WHERE turns.session_id = ?1
UNION
SELECT turns.id, turns.number, iif(history.kind = 'room', history.messages, NULL) FROM history
JOIN turns ON turns.id = history.turn_id AND history.kind IN ('turn', 'room') WHERE history.session_id = ?1"""
SELECT_SHOWN_TURNS = f"""
SELECT said.added, turns.user_id, turns.text, turns.reply, turns.state, turns.received, turns.finished
FROM ({SELECT_TURNS_OF_SESSION}) AS said JOIN turns ON turns.id = said.turn
WHERE ?2 = '' OR turns.user_id = ?2 AND said.added IS NULL ORDER BY said.place"""


def list_transcript_rows(state: sqlite3.Connection, session: str) -> list[Any]:
    """List the messages of a session with their positions, including those that a summary replaces."""
    return state.execute(SELECT_TRANSCRIPT, (session,)).fetchall()


def list_sessions_to_archive(state: sqlite3.Connection, since: str, idle_since: datetime) -> list[Session]:
    """List the finished sessions whose transcript is incomplete; an idle session is finished."""
    return fetch_all(Session, state.execute(SELECT_DUE_SESSIONS, (since, format_moment(idle_since))))


def list_visible_sessions(
    state: sqlite3.Connection, clearance: Trust, room: str, user: str, *, everything: bool
) -> list[Session]:
    """List the sessions of a user, or all, up to a clearance and in a room, the most recently used first."""
    query = f"""
    SELECT {SESSION_COLUMNS} FROM sessions WHERE clearance <= ?1 AND (?2 = '' OR room = ?2)
        AND (?3 OR ?4 != '' AND (user_id = ?4
            OR EXISTS (SELECT 1 FROM turns WHERE turns.session_id = sessions.id AND turns.user_id = ?4)))
    ORDER BY used DESC, id"""
    return fetch_all(Session, state.execute(query, (int(clearance), room, everything, user)))


def list_shown_rows(state: sqlite3.Connection, session: str, user: str) -> list[Any]:
    """List the turns of a session in every state; with a user, only theirs."""
    return state.execute(SELECT_SHOWN_TURNS, (session, user)).fetchall()
