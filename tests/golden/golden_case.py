"""The definition of a golden: a small workspace, a turn, and the expected verdicts."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from foreword.assembly import Assembly
from foreword.resources import read_blueprint
from foreword.testing import make_workspace
from foreword.tokens.count import Counter
from foreword.turn import Toolset, Turn
from foreword.types import Vocabulary

MODEL = "openai:gpt-5"  # has an exact tokenizer, so counts are exact
CONFIG = """\
owner: alice
agents: {reid: {model: "openai:gpt-5"}}
users:
  alice: {trust: full, timezone: Europe/Paris}
  carol: {trust: inner, timezone: Europe/Paris}
  bob: {trust: familiar}
rooms:
  family: {situation: group, timezone: Europe/Paris}
models: {"acme:plain": {window: 8192, native_tools: false}}
"""
NO_TOOLS = Toolset()
HERE = "$HERE"  # placeholder for the workspace folder
MORE = "so that we can look at it again later when somebody asks for it in the shop"  # one token per word


@dataclass(frozen=True, kw_only=True)
class Case:
    """One whole prompt and the claim that it proves."""

    name: str
    proves: str
    turn: Turn = field(default_factory=lambda: OWNER)
    files: Mapping[str, str] = field(default_factory=dict)
    base: str = "default"
    """The shipped blueprint that is used, or changed."""
    budget: Mapping[str, float | str] = field(default_factory=dict)
    """Lines of that blueprint's budget that are different here."""
    spare: int | None = None
    """Set the system budget to what the whole prompt needs, and so many tokens more or less."""
    edge: str = ""
    """Count from the least budget that has this slot in the prompt instead."""
    spare_turn: int | None = None
    """The same for the slots of the turn."""
    verdicts: Mapping[str, str] = field(default_factory=dict)
    """What must have become of these slots."""
    says: Mapping[str, str] = field(default_factory=dict)
    """Words that must stand in the reason of these slots' verdicts."""
    silent: tuple[str, ...] = ()
    """Words that must not stand in the prompt."""


def alice(**facts: object) -> Turn:
    """Make a private turn of the owner without tools."""
    return Turn(**{"user": "alice", "situation": "dm", "tools": NO_TOOLS, **facts})


OWNER = alice()


def assemble(case: Case, folder: Path) -> Assembly:
    """Assemble the prompt of a case in an empty folder."""
    budget = dict(case.budget)
    if case.spare is not None or case.spare_turn is not None:
        whole = build(case, budget, folder / "whole")
        if case.spare is not None:
            least = find_edge(case, budget, folder / "edge") if case.edge else whole.system_tokens
            budget["system"] = least + case.spare
        if case.spare_turn is not None:
            budget["turn"] = whole.used - whole.system_tokens + case.spare_turn
    return build(case, budget, folder / "tight")


def find_edge(case: Case, budget: Mapping[str, float | str], folder: Path) -> int:
    """Find the smallest system budget with which the prompt has the slot, whole or shortened."""
    low, high = 400, 4_000
    while high - low > 1:
        middle = (low + high) // 2
        assembly = build(case, {**budget, "system": middle}, folder / str(middle))
        if any(span.id == case.edge for span in assembly.prompt.spans):
            high = middle
        else:
            low = middle
    return high


def build(case: Case, budget: Mapping[str, float | str], folder: Path) -> Assembly:
    """Write the workspace, with a derived blueprint if the budget differs, and assemble the prompt."""
    name = "small" if budget else case.base
    files = {path: text.replace(HERE, str(folder)) for path, text in {"foreword.yaml": CONFIG, **case.files}.items()}
    if budget:
        files["blueprints/small.yaml"] = derive(case.base, budget)
    project = case.turn.project.replace(HERE, str(folder))
    turn = replace(case.turn, blueprint=name, model=case.turn.model or MODEL, project=project)
    return make_workspace(folder, files).assemble(turn)


def derive(base: str, budget: Mapping[str, float | str]) -> str:
    """Return a shipped blueprint with other values in its budget."""
    text = read_blueprint(base) or ""
    for key, value in budget.items():
        lines = [line for line in text.splitlines() if line.startswith(f"  {key}: ")]
        assert len(lines) == 1, f"{key} stands in {len(lines)} lines of the budget of {base}"
        text = text.replace(lines[0], f"  {key}: {value}")
    return text


def number_lines(first: int, last: int, words: str) -> str:
    """Make a text of numbered lines."""
    return "".join(f"{number}. {words}\n" for number in range(first, last + 1))


def fill(tokens: int, title: str, words: str, end: str = "\n\n") -> str:
    """Make a text with exactly this token count, including its heading and the separator after it."""
    meter = Counter(Vocabulary.O200K)

    def weigh(lines: list[str]) -> int:
        return meter.count(f"## {title}\n" + "\n".join(lines) + end)

    lines: list[str] = []
    while weigh([*lines, f"{len(lines) + 1}. {words}"]) <= tokens:
        lines.append(f"{len(lines) + 1}. {words}")
    more = tokens - weigh(lines)
    lines[0] = " ".join([lines[0].removesuffix("."), *MORE.split()[:more]]) + "."
    assert weigh(lines) == tokens, (tokens, weigh(lines))
    return "\n".join(lines) + "\n"
