"""Getting to know a person: what the bases and the files say is theirs, and what only they have said."""

from collections.abc import Iterable

from foreword.erasure.holding import Bases
from foreword.erasure.person import NOBODY, Person, find_all, find_others, find_said, mark
from foreword.erasure.remembered import list_entries, read_kept, read_others
from foreword.erasure.runs import Runs
from foreword.events.forgetting import FEW, RUN
from foreword.events.row import name as name_logged

# A loop of one's own may have sessions that the state does not know; the log says whose they were.
LOGGED = (
    "SELECT DISTINCT session_id FROM events WHERE user_id = ?1 AND session_id IS NOT NULL AND room IS NULL"
    " AND NOT EXISTS (SELECT 1 FROM events AS other WHERE other.session_id = events.session_id"
    " AND other.user_id IS NOT NULL AND other.user_id != ?1)"
)


def know(bases: Bases, name: str) -> Person:
    """Find out what belongs to a person, and mark it in the bases, so that their holdings can ask for it."""
    logged = name_logged(name) or NOBODY
    state, log = bases.state, bases.log
    alone = set(find_all(log, LOGGED, logged))
    sessions = set(find_all(state, "SELECT id FROM sessions WHERE user_id = ?", name))
    sessions |= alone - set(find_all(state, "SELECT id FROM sessions"))
    mark(state, {"session": sessions})
    rows = state.execute(
        "SELECT id, text, reply, prompt_hash FROM turns WHERE user_id = ?"
        " OR session_id IN (SELECT id FROM theirs WHERE kind = 'session')",
        (name,),
    ).fetchall() if state else []  # fmt: skip
    traces = {row[0] for row in rows} | set(find_all(log, "SELECT trace_id FROM events WHERE user_id = ?", logged))
    prompts = {row[3] for row in rows if row[3]}
    prompts |= set(find_all(log, "SELECT prompt_hash FROM events WHERE user_id = ?", logged))
    identities = getattr(bases.config.users.get(name), "identities", ())
    addresses = {*identities, *find_all(state, "SELECT identity FROM identities WHERE user_id = ?1", name)}
    said = [*(row[1] for row in rows), *find_said(state, name)]
    kept = read_kept(bases.root, name)
    person = Person(
        name=name,
        logged=logged,
        sessions=frozenset(sessions),
        turns=frozenset(row[0] for row in rows),
        traces=frozenset(traces),
        prompts=frozenset(prompts),
        addresses=frozenset(addresses),
        said=tuple(dict.fromkeys(said)),
        replies=tuple(dict.fromkeys(row[2] for row in rows if row[2])),
        kept=tuple(dict.fromkeys(kept)),
        paths=tuple(path.removeprefix("memory/") for path in list_entries(bases.root, name)),
        own=learn(said, RUN, find_others(state, name)),
        remembered=learn(kept, FEW, (*find_others(state, name), *read_others(bases.root, name))),
    )
    marks = {"session": sessions, "turn": person.turns, "trace": traces, "prompt": prompts, "address": addresses}
    for base in (state, log, bases.budgets):
        mark(base, marks)
    return person


def learn(texts: Iterable[str], least: int, others: Iterable[str]) -> Runs:
    """Learn somebody's words; what others say as well is no quotation."""
    runs = Runs()
    for text in texts:
        runs.learn(text, least)
    runs.share(others)
    return runs
