"""Getting to know a person: what the bases and the files say is theirs, and what only they have said."""

from collections.abc import Iterable

from foreword.erasure.holding import Bases
from foreword.erasure.person import NAMES, NOBODY, Person, find_all, find_others, find_said, mark
from foreword.erasure.remembered import list_entries, read_kept, read_others
from foreword.erasure.runs import Runs
from foreword.events.forgetting import FEW, RUN
from foreword.events.row import name as name_logged
from foreword.sources.own_memory import find_own_person, show_path

LOGGED = "(SELECT id FROM theirs WHERE kind = 'logged')"
# A loop of one's own may have sessions that the state does not know; the log says whose they were.
ALONE = (
    "SELECT session_id FROM (SELECT DISTINCT session_id FROM events"
    f" WHERE user_id IN {LOGGED} AND session_id IS NOT NULL AND room IS NULL) AS own"
    " WHERE NOT EXISTS (SELECT 1 FROM events AS other WHERE other.session_id = own.session_id"
    f" AND other.user_id IS NOT NULL AND other.user_id NOT IN {LOGGED})"
)
DUTIES = f"SELECT title, content FROM responsibilities WHERE user_id IN {NAMES}"
TURNS = (
    f"SELECT id, text, reply, prompt_hash FROM turns WHERE user_id IN {NAMES}"
    " OR session_id IN (SELECT id FROM theirs WHERE kind = 'session')"
)


def know(bases: Bases, name: str) -> Person:
    """Find out what belongs to a person, and mark it in the bases, so that their holdings can ask for it."""
    state, log = bases.state, bases.log
    names = find_names(bases, name)
    marks = {"name": names, "logged": {name_logged(one) or NOBODY for one in names}}
    for base in (state, log, bases.budgets):
        mark(base, marks)
    sessions = set(find_all(state, f"SELECT id FROM sessions WHERE user_id IN {NAMES}"))
    sessions |= set(find_all(log, ALONE)) - set(find_all(state, "SELECT id FROM sessions"))
    mark(state, {"session": sessions})
    rows = state.execute(TURNS).fetchall() if state else []
    turns = frozenset(row[0] for row in rows)
    traces = turns | set(find_all(log, f"SELECT trace_id FROM events WHERE user_id IN {LOGGED}"))
    prompts = {row[3] for row in rows if row[3]}
    prompts |= set(find_all(log, f"SELECT prompt_hash FROM events WHERE user_id IN {LOGGED}"))
    for base in (state, log, bases.budgets):
        mark(base, {"session": sessions, "turn": turns, "trace": traces, "prompt": prompts})
    said = [*(row[1] for row in rows), *find_said(state)]
    kept = read_kept(bases.root, names)
    duties = state.execute(DUTIES).fetchall() if state else []
    return Person(
        name=name,
        names=frozenset(names),
        sessions=frozenset(sessions),
        turns=turns,
        traces=frozenset(traces),
        prompts=frozenset(prompts),
        said=tuple(dict.fromkeys(said)),
        replies=tuple(dict.fromkeys(row[2] for row in rows if row[2])),
        kept=tuple(dict.fromkeys(kept)),
        duties=tuple(duties),
        paths=tuple(show_path(path) for path in list_entries(bases.root, names) if not find_own_person(path)),
        own=learn(said, RUN, find_others(state)),
        remembered=learn(kept, FEW, (*find_others(state), *read_others(bases.root, names))),
    )


def find_names(bases: Bases, name: str) -> set[str]:
    """Find all that a person was known by: their name, and identities that were paired or are configured."""
    user = bases.config.users.get(name)
    paired = find_all(bases.state, "SELECT identity FROM identities WHERE user_id = ?", name)
    return {name, *paired, *(user.identities if user else ())}


def learn(texts: Iterable[str], least: int, others: Iterable[str]) -> Runs:
    """Learn somebody's words; what others say as well is no quotation."""
    runs = Runs()
    for text in texts:
        runs.learn(text, least)
    runs.share(others)
    return runs
