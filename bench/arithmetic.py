"""Calculations from the documents: the savings of a cached base (OSA), and prompt sizes (Moltis)."""

import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import foreword
from bench.figure import Figure
from bench.sample import EXAMPLE
from foreword.testing import NOON, make_workspace, write_files
from foreword.tokens.models import find_prices
from foreword.turn import Git, Host, Message, Sandbox, Tool, Toolset, Turn
from foreword.types import Mode, Trust

TURNS, ITERATIONS = 8, 3
CACHED = "anthropic:claude-opus-5"  # its cache minimum is 512 tokens, so the base alone has a breakpoint
COUNTED = "openai:gpt-5.5"  # its counts are exact
WRITE, READ = 1.0, 0.1  # the prices in OSA's document, relative to input

ALICE = 'owner: alice\nagents: {reid: {model: "%s", blueprint: %s}}\nusers: {alice: {trust: full}}\n'
IDENTITY = "---\nname: Reid\nemoji: 🗝️\ncreature: house spirit\nvibe: calm, dry, dependable\n---\n"
TOOLS = {
    "exec": "Run a shell command in the sandbox or on the host and return its output, its errors and its exit code.",
    "browser": "Open a page, click, type and read what is shown; for pages that need a browser.",
    "web_fetch": "Fetch an address and return the page as readable text.",
    "memory_search": "Search the long-term memory by meaning and by words, and return the best passages.",
    "memory_get": "Read part of a memory file by its path and its lines.",
    "memory_save": "Keep a fact in the long-term memory.",
    "cron": "Create, list, change or remove a job that runs at a time or at intervals.",
    "send_message": "Send a message to a person on one of the connected channels.",
}
SERVERS = ("github", "calendar", "drive", "mail", "notes", "tickets")
VERBS = ("list", "get", "search", "create", "update")
# The files of a project, each made from one of the example's.
PROJECT = {
    "CLAUDE.md": "rules/privacy.md",
    "app/CLAUDE.md": "rules/writing.md",
    "app/.claude/rules/energy.md": "rules/home/energy.md",
}


def run() -> Iterator[Figure]:
    """Reproduce both calculations, each with the figures of its document."""
    saving = measure_saving()
    written = "the document: 800–1,200 tokens"
    yield Figure(name="OSA, SYSTEM.md as written", value=saving.document_tokens, unit="tok", baseline=written)
    beside = f"{len(TOOLS)} tools and a rule in it, counted for Claude; {saving.bases} text in {saving.calls} calls"
    yield Figure(name="OSA, static base", value=saving.base_tokens, unit="tok", baseline=beside)
    calls = f"{saving.calls} calls; the document: 24 × 1,000 = 24,000"
    yield Figure(name="OSA, static base without a cache", value=saving.plain, unit="tok", baseline=calls)
    for name, price, said in (("its", saving.document, "; the document: ~86 %"), ("Anthropic's", saving.anthropic, "")):
        sums = f"writes at {price.write:g}, reads at {price.read:g}: {price.units:,.0f} units{said}"
        yield Figure(name=f"OSA, saved at {name} prices", value=price.saved * 100, unit="%", baseline=sums)
    for size in measure_sizes():
        said = f"{size.tokens:,} tokens; {size.expected.describe() if size.expected else 'not in the document'}"
        yield Figure(name=f"Moltis, {size.name}", value=size.characters, unit="ch", baseline=said)


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """The cost of the base over a conversation, in input tokens, and the saving."""

    write: float
    read: float
    units: float
    saved: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Saving:
    """The static base over a conversation."""

    document_tokens: int
    """The document alone, without tools and rules, in tokens of o200k."""
    calls: int
    bases: int
    """The number of different bases; the cache only helps if it is one."""
    base_tokens: int
    plain: int
    document: Price
    anthropic: Price


def measure_saving() -> Saving:
    """Send a conversation of 8 turns with 3 calls each, and account for an ideal cache."""
    with tempfile.TemporaryDirectory() as name:
        files = {
            "foreword.yaml": ALICE % (CACHED, "osa"),
            "USER.md": (EXAMPLE / "USER.md").read_text(encoding="utf-8"),
            "rules/writing.md": (EXAMPLE / "rules" / "writing.md").read_text(encoding="utf-8"),
        }
        workspace = make_workspace(Path(name), files)
        sent = [send(workspace.assemble(turn)) for turn in converse()]
        bare = make_workspace(Path(name) / "bare", {"foreword.yaml": ALICE % (COUNTED, "osa")})
        document = bare.assemble(Turn(user="alice", situation="dm", tools=Toolset())).prompt.blocks[0]
    prices = find_prices(CACHED, {})
    assert prices
    plain = sum(tokens for _, tokens in sent)
    return Saving(
        document_tokens=document.tokens,
        calls=len(sent),
        bases=len({base for base, _ in sent}),
        base_tokens=sent[0][1],
        plain=plain,
        document=bill(sent, plain, WRITE, READ),
        anthropic=bill(sent, plain, prices.cache_write / prices.input, prices.cache_read / prices.input),
    )


def converse() -> Iterator[Turn]:
    """Make the calls of a conversation; the clock, the repository and the history change with each."""
    turn = Turn(user="alice", situation="dm", project="/work", tools=make_tools(TOOLS), host=Host(os="linux"))
    history: list[Message] = []
    for call in range(TURNS * ITERATIONS):
        at, step = divmod(call, ITERATIONS)
        message = f"Please fix matter {at}, and tell me why it broke."
        yield replace(
            turn,
            message=message,
            history=tuple(history),
            plan=at % 4 == 3,
            git=Git(branch="main", changed=call),
            now=NOON + call * timedelta(seconds=40),
        )
        said = "It was the third line." if step == ITERATIONS - 1 else f"[tool] looked at file {call}"
        history += [Message(role="user", text=message), Message(role="assistant", text=said)]


def send(assembly: foreword.Assembly) -> tuple[str, int]:
    """Return the request up to the first cache breakpoint, including tool schemas, and the base's tokens."""
    request = assembly.envelope("anthropic").request
    base = request["system"][0]
    assert "cache_control" in base, "the base is not marked for the cache"
    assert base["text"] == assembly.prompt.blocks[0].text
    return json.dumps(request["tools"]) + base["text"], assembly.prompt.blocks[0].tokens


def bill(sent: Sequence[tuple[str, int]], plain: int, write: float, read: float) -> Price:
    """Bill each new base as a write and each repeated one as a read."""
    seen: set[str] = set()
    units = 0.0
    for base, tokens in sent:
        units += tokens * (read if base in seen else write)
        seen.add(base)
    return Price(write=write, read=read, units=units, saved=1 - units / plain)


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """The range of characters and tokens that Moltis' document gives for a configuration."""

    characters: tuple[int, int]
    tokens: tuple[int, int]

    def describe(self) -> str:
        """Format the range as the document does."""
        characters, tokens = (
            f"{low:,}–{high:,}" if low < high else f"{low:,}" for low, high in (self.characters, self.tokens)
        )
        return f"the document: {characters} characters, {tokens} tokens"


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """One measured configuration."""

    name: str
    characters: int
    tokens: int
    expected: Expected | None


def measure_sizes() -> list[Size]:
    """Build the five configurations of Moltis' table, and a sixth that is not in it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        bare = make_workspace(folder / "bare", {"foreword.yaml": ALICE % (COUNTED, "moltis")})
        own = make_workspace(folder / "own", {"foreword.yaml": ALICE % (COUNTED, "moltis"), "IDENTITY.md": IDENTITY})
        typical = make_workspace(folder / "typical", write_own(folder))
        full = make_workspace(folder / "full", {**write_own(folder), **copy_skills()})
        write_files(folder, {path: read_example(source) for path, source in PROJECT.items()})
        alice = Turn(user="alice", situation="dm", tools=Toolset(), mode=Mode.FULL)
        acting = replace(alice, tools=make_tools(TOOLS), session="main", **describe_place())
        working = replace(acting, project=str(folder / "app"))
        many = {f"{server}_{verb}": describe_tool(server, verb) for server in SERVERS for verb in VERBS}
        return [
            weigh("minimal", bare, replace(alice, mode=Mode.NONE), make_expected(200, 50)),
            weigh("soul, identity, guidelines", own, alice, make_expected(2_000, 500)),
            weigh("typical with tools", typical, acting, make_expected(5_000, 1_250)),
            weigh("full: tools, project, skills", full, working, make_expected(7_000, 1_750, 10_000, 2_500)),
            weigh(
                "large: many MCP tools, full context",
                full,
                replace(working, tools=make_tools({**TOOLS, **many})),
                make_expected(12_000, 3_000, 15_000, 3_750),
            ),
            weigh("typical, with tools in the text", typical, replace(acting, model="acme:plain"), None),
        ]


def weigh(name: str, workspace: foreword.Workspace, turn: Turn, expected: Expected | None) -> Size:
    """Build a prompt and count it."""
    prompt = workspace.assemble(turn).prompt
    return Size(name=name, characters=len(prompt.text.strip()), tokens=prompt.tokens, expected=expected)


def make_expected(characters: int, tokens: int, most: int = 0, most_tokens: int = 0) -> Expected:
    """Make the expectation from a figure or a range of the document."""
    return Expected(characters=(characters, most or characters), tokens=(tokens, most_tokens or tokens))


def write_own(folder: Path) -> Mapping[str, str]:
    """Write the workspace of the three larger configurations; the upward search from a project ends above it."""
    models = '\nmodels: {"acme:plain": {window: 128000, native_tools: false}}\nprompt: {project_stop: "%s"}\n'
    return {
        "foreword.yaml": ALICE % (COUNTED, "moltis") + models % folder,
        "IDENTITY.md": IDENTITY,
        "USER.md": read_example("USER.md"),
        "TOOLS.md": read_example("TOOLS.md"),
    }


def copy_skills() -> Mapping[str, str]:
    """Copy the six skills of the example."""
    skills = EXAMPLE / "skills"
    return {f"skills/{path.parent.name}/SKILL.md": path.read_text("utf-8") for path in skills.glob("*/SKILL.md")}


def read_example(path: str) -> str:
    return (EXAMPLE / path).read_text(encoding="utf-8")


def describe_place() -> Mapping[str, object]:
    """Return the host and the sandbox of Moltis' example."""
    return {
        "host": Host(host="moltis-devbox", os="macos", arch="aarch64", shell="zsh", sudo_non_interactive=True),
        "sandbox": Sandbox(
            enabled=True,
            mode="all",
            backend="docker",
            scope="session",
            image="moltis-sandbox:abc123",
            workspace_mount="ro",
            network="disabled",
        ),
    }


def describe_tool(server: str, verb: str) -> str:
    return (
        f"{verb.capitalize()} what {server} holds: takes a query, a limit and a cursor, and answers with what matched."
    )


def make_tools(described: Mapping[str, str]) -> Toolset:
    """Make tools with one parameter each."""
    parameters = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}
    return Toolset(
        Tool(name=name, description=text, parameters=parameters, trust=Trust.FAMILIAR)
        for name, text in described.items()
    )
