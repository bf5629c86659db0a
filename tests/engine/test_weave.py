"""Claims about slots in templates: each is in its place, with its own trust, verdict, span and pace."""

import re
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path

import pytest

from foreword.assembly import Assembly, ReportRow
from foreword.testing import make_workspace, write_files
from foreword.turn import Extension, Turn
from foreword.types import Pace, Trust
from foreword.workspace import Workspace

CONFIG = (
    "owner: alice\n"
    "users: {alice: {trust: full}, ina: {trust: inner}, fay: {trust: familiar}, pat: {trust: public}}\n"
    "situations: {dm: {ceiling: full}, salon: {ceiling: full}}\n"
    "rooms: {hall: {situation: salon}}\n"
    "models: {small: {window: 24000}}\n"
)
TURN = Turn(user="alice", situation="dm", model="openai:gpt-5")
RULES = {"rules/a.md": "RULE A\n", "rules/b.md": "RULE B\n"}
HEAD = 'name: mine\nmarker: "[cut]"\nmarker_without_call: "[cut]"\nslots:\n'
EXTENSIONS = (
    Extension(name="maps", instructions="MAPS", trust=Trust.PUBLIC),
    Extension(name="mail", instructions="MAIL"),
)
TEMPLATES = [
    "A {{ RULES }} B\n",
    "{{ RULES }}",
    "{{ RULES }}\nafter",
    "before\n{{ USER_PROFILE }}{{ RULES }}{{ extensions }}",
    "{% for e in extensions %}## {{ e.name }}\n{{ e.instructions }}\n{% endfor %}\n\nend",
    "{{ TOOL_DEFINITIONS }}\n\n---\n\n{{ USER_PROFILE }}\n\n\n{{ NOBODY }}\n",
    "{{ RULES }}{{ RULES }} twice {{ RULES }}",
    "\n\n  {{ USER_PROFILE }}  \n\n",
    "# System\n{% if USER_PROFILE %}{{ USER_PROFILE }}{% else %}nobody{% endif %}",
    "é {{ USER_PROFILE }} 日本 {{ RULES }} 🐝",
]


def make(folder: Path, files: Mapping[str, str], config: str = "") -> Workspace:
    """Make a workspace with four people, one for each clearance."""
    return make_workspace(folder, {"foreword.yaml": CONFIG + config, **files})


def list_pieces(assembly: Assembly, name: str) -> list[tuple[str, str, str]]:
    """Return the ids, verdicts and texts of a slot's rows; where there is no text, the reason."""
    rows = [row for row in assembly.rows(Trust.FULL) if row.id.partition(":")[0] == name]
    return [(row.id, str(row.verdict), show(assembly, row)) for row in rows]


def show(assembly: Assembly, row: ReportRow) -> str:
    """Show the text of a row, or the reason why there is none."""
    return assembly.prompt.text[row.span[0] : row.span[1]] if row.span else row.reason


def find_section(assembly: Assembly, title: str) -> str:
    """Find the text between a heading and the next one of its kind."""
    return assembly.prompt.text.partition(f"## {title}\n")[2].partition("\n\n## ")[0]


@pytest.mark.parametrize("template", TEMPLATES)
def test_spans_cover_the_text(tmp_path: Path, template: str) -> None:
    """For any template, spans cover the text without gap, and the blocks joined are the text."""
    workspace = make(tmp_path, {**RULES, "SYSTEM.md": template, "USER.md": "SAILS\n", "users/ina/USER.md": "INA\n"})
    for user, blueprint in product(("alice", "ina", "fay", "pat", "stranger"), ("default", "osa")):
        turn = replace(TURN, user=user, extensions=EXTENSIONS, blueprint=blueprint)
        prompt = workspace.assemble(turn).prompt
        assert "".join(block.text for block in prompt.blocks) == prompt.text
        ends = [(span.start, span.end) for span in prompt.spans]
        assert all(end == start for (_, end), (start, _) in pairwise(ends))
        assert (ends[0][0], ends[-1][1]) == (0, len(prompt.text))
        assert len({span.id for span in prompt.spans}) == len(prompt.spans)
        assert "{{" not in prompt.text
        assert "\0" not in prompt.text


def test_side_by_side(tmp_path: Path) -> None:
    """A template's passages and the slots it names are side by side under one heading, each with its own id."""
    assembly = make(tmp_path, {**RULES, "SYSTEM.md": "One {{ RULES }} two {{ extensions }} three.\n"})
    text = assembly.assemble(replace(TURN, extensions=EXTENSIONS[:1]))
    assert list_pieces(text, "system") == [
        ("system", "kept", "## System\nOne "),
        ("system:2", "kept", " two "),
        ("system:3", "kept", " three.\n\n"),
    ]
    assert list_pieces(text, "rules") == [("rules:a.md", "kept", "RULE A\n\n"), ("rules:b.md", "kept", "RULE B")]
    assert list_pieces(text, "extensions") == [("extensions:maps", "kept", "MAPS")]
    assert find_section(text, "System") == "One RULE A\n\nRULE B two MAPS three."


def test_begins_with_a_variable(tmp_path: Path) -> None:
    """A template that begins with a variable still begins with its own heading."""
    for at, template in enumerate(("{{ RULES }}\nAfter.", "\n\n{{ TOOL_DEFINITIONS }}{{ RULES }}\nAfter.")):
        text = make(tmp_path / str(at), {**RULES, "SYSTEM.md": template}).assemble(TURN)
        assert list_pieces(text, "system")[0] == ("system", "kept", "## System\n")
        assert "## Rules\n" not in text.prompt.text
        assert find_section(text, "System").endswith("RULE A\n\nRULE B\nAfter.")


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("A{{ RULES }}B", "ARULE A\n\nRULE BB"),
        ("A\n\n{{ RULES }}\n\n{{ TOOL_DEFINITIONS }}\n\nB", "A\n\nRULE A\n\nRULE B\n\n- forget_memory: "),
        ("A {{ RULES }}{{ USER_PROFILE }}", "A RULE A\n\nRULE B\n\nU"),
        ("A {{ RULES }} {{ USER_PROFILE }} B", "A RULE A\n\nRULE B U B"),
        ("A\n{{ NOBODY }}\nB {{ RULES }}", "A\n\nB RULE A\n\nRULE B"),
        ("{{ RULES }}", "RULE A\n\nRULE B"),
    ],
)
def test_white_space(tmp_path: Path, template: str, text: str) -> None:
    """White space is the template's own; only two sections that nothing separates get a blank line."""
    assembly = make(tmp_path, {**RULES, "SYSTEM.md": template, "USER.md": "U"}).assemble(TURN)
    found = find_section(assembly, "System")
    assert found.startswith(text) if text.endswith(": ") else found == text


def test_keeps_its_own_place(tmp_path: Path) -> None:
    """A slot that no template names stays where it is; one that can only be nested is absent, and says so."""
    assembly = make(tmp_path, {**RULES, "SYSTEM.md": "Plain {{ name }}."}).assemble(TURN)
    assert "## Rules\n### a.md\nRULE A\n\n### b.md\nRULE B\n\n" in assembly.prompt.text
    assert list_pieces(assembly, "tool-definitions") == [
        ("tool-definitions", "absent", "no template names {{ TOOL_DEFINITIONS }}")
    ]


def test_not_placed(tmp_path: Path) -> None:
    """A slot that a template mentions and does not place is absent, and says which template it was."""
    template = "{% if RULES and nobody %}{{ RULES }}{% endif %}Text."
    assembly = make(tmp_path, {**RULES, "SYSTEM.md": template}).assemble(TURN)
    reason = "SYSTEM.md does not use it"
    assert list_pieces(assembly, "rules") == [("rules:a.md", "absent", reason), ("rules:b.md", "absent", reason)]
    assert "RULE" not in assembly.prompt.text


def test_some_of_several(tmp_path: Path) -> None:
    """Of several sections behind one variable a template may place some; the others are absent, none is lost."""
    assembly = make(tmp_path, {**RULES, "SYSTEM.md": "{{ RULES|last }} only"}).assemble(TURN)
    assert list_pieces(assembly, "rules") == [
        ("rules:b.md", "kept", "RULE B"),
        ("rules:a.md", "absent", "SYSTEM.md does not use it"),
    ]


@pytest.mark.parametrize(("user", "seen"), [("alice", "SAILS"), ("ina", "INA"), ("fay", ""), ("pat", "")])
def test_nested_trust(tmp_path: Path, user: str, seen: str) -> None:
    """A nested slot above the clearance leaves no byte and is not opened, and the template sees nothing of it."""
    own = {f"users/{name}/USER.md": f"{name.upper()}\n" for name in ("ina", "fay", "pat")}
    template = "A {% if USER_PROFILE %}<{{ USER_PROFILE }}>{% else %}-{% endif %} B"
    ws = make(tmp_path, {**own, "USER.md": "SAILS\n", "SYSTEM.md": template})
    assembly = ws.assemble(replace(TURN, user=user))
    assert find_section(assembly, "System") == ("" if user == "pat" else f"A <{seen}> B" if seen else "A - B")
    assert ("USER.md" in ws.files._files) == (user == "alice")
    assert (f"users/{user}/USER.md" in ws.files._files) == (user in {"alice", "ina"})
    if not seen:
        assert list_pieces(assembly, "user") == [("user", "withheld", "needs inner")]


def test_nested_trust_of_a_listed_file(tmp_path: Path) -> None:
    """Another trust that the configuration gives to a file holds for it in a template as well."""
    config = "prompt: {files: [{path: USER.md, trust: full, per_user: true}]}\n"
    ws = make(tmp_path, {"users/ina/USER.md": "INA\n", "SYSTEM.md": "A {{ USER_PROFILE }}."}, config)
    assembly = ws.assemble(replace(TURN, user="ina"))
    assert "INA" not in assembly.prompt.text
    assert "users/ina/USER.md" not in ws.files._files


def test_nested_extensions(tmp_path: Path) -> None:
    """An extension above the clearance is neither counted nor named by a template."""
    template = "{{ extensions|length }}{% for e in extensions %} {{ e.name }}{% endfor %}"
    ws = make(tmp_path, {"SYSTEM.md": template})
    alice = ws.assemble(replace(TURN, extensions=EXTENSIONS))
    fay = ws.assemble(replace(TURN, extensions=EXTENSIONS, user="fay"))
    assert find_section(alice, "System") == "2 mail maps"
    assert find_section(fay, "System") == "1 maps"


def test_rooms(tmp_path: Path) -> None:
    """In a room no person's own slot is in a template, and it is not opened."""
    template = "A {% if USER_PROFILE %}{{ USER_PROFILE }}{% else %}-{% endif %} B"
    ws = make(tmp_path, {"USER.md": "SAILS\n", "SYSTEM.md": template})
    assembly = ws.assemble(replace(TURN, situation="", room="hall"))
    assert find_section(assembly, "System") == "A - B"
    assert assembly.clearance.level is Trust.FULL
    reason = "personal slots are left out where others read the reply"
    assert list_pieces(assembly, "user") == [("user", "absent", reason)]
    assert "USER.md" not in ws.files._files


def test_withheld_template(tmp_path: Path) -> None:
    """A template above the clearance takes nothing: what it would name keeps its own place, or is absent."""
    ws = make(tmp_path, {"SYSTEM.md": "A {{ extensions }} {{ TOOL_DEFINITIONS }}"})
    assembly = ws.assemble(replace(TURN, user="pat", extensions=EXTENSIONS))
    assert "## Extensions\n### maps\nMAPS\n\n" in assembly.prompt.text
    assert list_pieces(assembly, "tool-definitions")[0][1:] == ("absent", "no template names {{ TOOL_DEFINITIONS }}")
    assert "SYSTEM.md" not in ws.files._files


def list_paces(assembly: Assembly) -> list[tuple[str, str]]:
    """List the paces of the blocks, each with its parts of the template."""
    names = ("system", "user", "rules", "extensions")
    found = [(str(block.pace), [span.id for span in block.spans]) for block in assembly.prompt.blocks]
    return [(pace, " ".join(one for one in ids if one.partition(":")[0] in names)) for pace, ids in found]


def test_pace(tmp_path: Path) -> None:
    """Up to the first slot that changes with the session a template is static, and behind it nothing is any more."""
    files = {**RULES, "SYSTEM.md": "One {{ RULES }} two {{ USER_PROFILE }} three {{ extensions }} four", "USER.md": "U"}
    assembly = make(tmp_path, {**files, "AGENTS.md": "A"}).assemble(replace(TURN, extensions=EXTENSIONS[:1]))
    places = [(pace, re.sub(r"system:\d", "system:N", ids)) for pace, ids in list_paces(assembly)]
    assert places == [
        ("static", "system rules:a.md rules:b.md system:N"),
        ("session", "system:N user system:N extensions:maps system:N"),
        ("static", ""),
        ("session", ""),
        ("turn", ""),
    ]
    assert find_section(assembly, "System") == "One RULE A\n\nRULE B two U three MAPS four"


@pytest.mark.parametrize("template", [one for one in TEMPLATES if "USER_PROFILE" in one])
def test_same_prefix(tmp_path: Path, template: str) -> None:
    """Two people of one clearance share the static block, even if a template speaks of one of them only."""
    files = {**RULES, "SYSTEM.md": template, "users/ina/USER.md": "INA\n"}
    config = CONFIG.replace("pat: {trust: public}", "pat: {trust: inner}")
    ws = make_workspace(tmp_path, {"foreword.yaml": config, **files})
    ina, pat = (ws.assemble(replace(TURN, user=user, extensions=EXTENSIONS)) for user in ("ina", "pat"))
    assert "INA" in ina.prompt.text
    assert "INA" not in pat.prompt.text
    assert ina.prompt.blocks[0].pace is Pace.STATIC
    assert pat.prompt.blocks[0].text.startswith(ina.prompt.blocks[0].text)
    assert "## Core\n" in ina.prompt.blocks[0].text


def test_turns_leave_a_template(tmp_path: Path) -> None:
    """Neither the clock nor the message moves a byte before the tail, with a template as without."""
    template = "One {{ USER_PROFILE }} {{ current_date_time }} {{ RULES }}"
    ws = make(tmp_path, {**RULES, "SYSTEM.md": template, "USER.md": "U"})
    first, second = (ws.assemble(replace(TURN, message=message)) for message in ("hello", "fix the build now"))
    stable = [[block.text for block in one.prompt.blocks if block.pace is not Pace.TURN] for one in (first, second)]
    assert stable[0] == stable[1]


TWO = "prompt: {files: [{path: X.md, template: true}, {path: Y.md, template: true}]}\n"


def test_two_templates(tmp_path: Path) -> None:
    """Of two templates that name the same variable the first one has it, and the second one says so."""
    files = {**RULES, "SYSTEM.md": "S {{ RULES }}.", "X.md": "X {{ RULES }}{{ name }}.", "Y.md": "Y {{ extensions }}."}
    assembly = make(tmp_path, files, TWO).assemble(replace(TURN, extensions=EXTENSIONS[:1]))
    assert assembly.prompt.text.count("RULE A") == 1
    assert find_section(assembly, "System") == "S RULE A\n\nRULE B."
    assert find_section(assembly, "X.md") == "X Assistant."
    assert find_section(assembly, "Y.md") == "Y MAPS."
    rows = {row.id: row.reason for row in assembly.rows()}
    assert rows["files:X.md"] == "RULES is already in SYSTEM.md"
    assert [name for name in rows if name.startswith("files:")] == ["files:X.md", "files:Y.md", "files:Y.md:2"]


def test_failing_template(tmp_path: Path) -> None:
    """A template that fails during rendering removes no slot: the slots it named are in their own places."""
    fails = "{% for x in 5 %}{% endfor %}"
    assembly = make(tmp_path / "1", {**RULES, "SYSTEM.md": "S {{ RULES }}" + fails}).assemble(TURN)
    assert find_section(assembly, "System") == "[SYSTEM.md cannot be filled in: 'int' object is not iterable]"
    assert "## Rules\n### a.md\nRULE A\n\n" in assembly.prompt.text
    assert list_pieces(assembly, "system")[0][1] == "dropped"


def test_next_template(tmp_path: Path) -> None:
    """A slot that a failing template named may be in the next template."""
    files = {**RULES, "X.md": "X {{ RULES }}{% for x in 5 %}{% endfor %}", "Y.md": "Y {{ RULES }}."}
    assembly = make(tmp_path, files, TWO).assemble(TURN)
    assert find_section(assembly, "Y.md") == "Y RULE A\n\nRULE B."


def test_blank_template(tmp_path: Path) -> None:
    """A template of which nothing is left is absent, with its reason."""
    assembly = make(tmp_path / "1", {"SYSTEM.md": "{{ NOBODY }}\n{{ RULES }}"}).assemble(TURN)
    assert list_pieces(assembly, "system") == [("system", "absent", "unknown variables are left out: NOBODY")]
    assembly = make(tmp_path / "2", {"SYSTEM.md": "{% if USER_PROFILE %}x{% endif %}"}).assemble(TURN)
    assert list_pieces(assembly, "system") == [("system", "absent", "it is blank")]


@pytest.mark.parametrize("nested", ["", ", placement: nested"])
def test_cyclic_templates(tmp_path: Path, nested: str) -> None:
    """A template is no variable, neither of itself nor of another: nothing can contain itself."""
    slots = [
        f"id: a, source: template, file: A.md, variable: A, pace: static, trust: public{nested}",
        f"id: b, source: template, file: B.md, variable: B, pace: static, trust: public{nested}",
        "id: c, source: template, file: C.md, pace: static, trust: public",
    ]
    texts = {"A.md": "(A {{ B }})", "B.md": "(B {{ A }}{{ B }})", "C.md": "(C {{ A }})"}
    blueprint = HEAD + "".join(f"  - {{{slot}}}\n" for slot in slots)
    files = {"blueprints/mine.yaml": blueprint, **texts}
    assembly = make(tmp_path, files).assemble(replace(TURN, blueprint="mine"))
    assert "{{" not in assembly.prompt.text
    assert find_reason(assembly, "c") == "unknown variables are left out: A"
    assert assembly.prompt.text.count("(C ") == 1


def find_reason(assembly: Assembly, name: str) -> str:
    """Find the reason of a row."""
    return next(row.reason for row in assembly.rows() if row.id == name)


def test_broken_rule(tmp_path: Path) -> None:
    """A nested file that cannot be read is mentioned in its place in a template, and costs the others nothing."""
    write_files(tmp_path, RULES)
    (tmp_path / "rules/a.md").write_bytes(b"\xff")
    assembly = make(tmp_path, {"SYSTEM.md": "S {{ RULES }}."}).assemble(TURN)
    assert find_section(assembly, "System") == "S [rules/a.md is not UTF-8 in line 1; save it as UTF-8]\n\nRULE B."
    assert [verdict for _, verdict, _ in list_pieces(assembly, "rules")] == ["dropped", "kept"]


LONG = "".join(f"{at}. A line of some words about the subject of this rule.\n" for at in range(1, 121))
NAMED = "The user's name is Alice.\n"
CALL = re.compile(r'(memory_get|read_section)\(("[^"]+"), from=(\d+)(?:, lines=(\d+))?\)')


@pytest.mark.parametrize(
    ("template", "files", "ids"),
    [
        ("Intro\n\n{{ RULES }}\n\nEnd", {"rules/a.md": LONG}, ["rules:a.md"]),
        ("{{ USER_PROFILE }}\nEnd", {"USER.md": f"---\nname: Alice\n---\n{LONG}"}, ["user"]),
        ("{{ USER_PROFILE }}\nEnd", {"USER.md": LONG}, ["user"]),
        (f"{LONG}\n{{{{ RULES }}}}\n{LONG}", {"rules/a.md": LONG}, ["system", "system:2", "rules:a.md"]),
        ("{{ extensions }}", {}, ["extensions:long"]),
    ],
)
def test_offers_are_redeemed(tmp_path: Path, template: str, files: dict[str, str], ids: list[str]) -> None:
    """The call in the place of a shortened or omitted part of a template returns exactly that part."""
    ws = make(tmp_path, {"SYSTEM.md": template, **files})
    long = Extension(name="long", instructions=LONG)
    assembly = ws.assemble(replace(TURN, model="small", extensions=(long,) if "extensions" in template else ()))
    rows = {row.id: row for row in assembly.rows()}
    for name in ids:
        shown = show(assembly, rows[name])
        assert str(rows[name].verdict) in {"shortened", "dropped"}
        tool, target, first, lines = CALL.search(shown).groups()
        key = "path" if tool == "memory_get" else "id"
        arguments = {key: target.strip('"'), "from": int(first), **({"lines": int(lines)} if lines else {})}
        rest = ws.call(assembly, tool, arguments).text
        kept = [line for line in shown.partition("[")[0].split("\n")[:-1] if not line.startswith("## ")]
        assert len(rest.split("\n")) > 10
        assert "\n".join([*kept, rest]).strip() == (NAMED + LONG if "name: Alice" in str(files) else LONG).strip()


def test_offer_above_the_clearance(tmp_path: Path) -> None:
    """A nested section cannot be read by a turn that may not see it, nor by its id or its path."""
    ws = make(tmp_path, {"SYSTEM.md": "{{ USER_PROFILE }}{{ RULES }}", "users/fay/USER.md": "FAY", **RULES})
    assembly = ws.assemble(replace(TURN, user="fay"))
    for tool, argument in (("read_section", {"id": "user"}), ("memory_get", {"path": "users/fay/USER.md"})):
        with pytest.raises(Exception, match="there is no"):
            ws.call(assembly, tool, argument)
    assert ws.call(assembly, "memory_get", {"path": "rules/a.md"}).text == "RULE A"


LISTED = """owner: alice
users: {alice: {trust: full}}
agents: {reid: {model: "openai:gpt-5"}}
prompt: {files: [{path: BOX.md, trust: familiar, template: true}]}
"""


def test_lost_end(tmp_path: Path) -> None:
    """When the last section of a template is left out, the text before it still ends before the next heading.

    Seen to fail while only the last section of a template had a separator, whether it was there or not.
    """
    small = f'{LISTED}models: {{"openai:gpt-5": {{window: 1000}}}}\n'
    ws = make(tmp_path, {"BOX.md": "Before {{ extensions }}", "foreword.yaml": small})
    turn = replace(
        TURN, blueprint="coop", mode="full", extensions=(Extension(name="big", instructions="word " * 40_000),)
    )
    assembly = ws.assemble(turn)
    text = assembly.prompt.text
    assert [row.verdict.value for row in assembly.rows() if row.id == "extensions:big"] == ["dropped"]
    assert "Before " in text
    assert "\n\n## Channel\n" in text


PEOPLE = """owner: alice
users: {alice: {trust: full}, ina: {trust: inner}, ivo: {trust: inner}, bob: {trust: familiar}}
agents: {reid: {model: "openai:gpt-5"}}
"""


@pytest.mark.parametrize(
    "template",
    [
        "A\n{% for x in USER_PROFILE %}{% if x.name == 'user' %}known{% endif %}{% endfor %}\nB",
        "A\n{% if USER_PROFILE|length > 1 %}many{% else %}few{% endif %}\nB",
        "A\n{% if USER_PROFILE %}\n## Profile\n{{ USER_PROFILE }}{% endif %}",
    ],
)
def test_nobody_moves_what_all_share(tmp_path: Path, template: str) -> None:
    """The text before a mention of a person's own slot is the same for all users at one clearance.

    Seen to fail while the stable part was guessed from one profile or none.
    """
    files = {"SYSTEM.md": template, "users/ina/USER.md": "Ina.\n", "foreword.yaml": PEOPLE}
    ws = make(tmp_path, files)
    ina, ivo = (ws.assemble(replace(TURN, user=user)).prompt.blocks[0].text for user in ("ina", "ivo"))
    assert ina == ivo
    assert ina.endswith("## System\nA")


def test_a_persons_template_takes_nothing_from_all(tmp_path: Path) -> None:
    """A slot with an explicit place does not leave it for a template that only one person has.

    Seen to fail while any template took what it named.
    """
    listed = PEOPLE + "prompt: {files: [{path: HINTS.md, per_user: true, template: true, trust: familiar}]}\n"
    ws = make(tmp_path, {**RULES, "users/bob/HINTS.md": "Mine: {{ RULES }}", "foreword.yaml": listed})
    alone, together = (ws.assemble(replace(TURN, user="bob", situation=where)) for where in ("dm", "group"))
    assert alone.prompt.blocks[0].text == together.prompt.blocks[0].text
    assert "RULE A" in alone.prompt.blocks[0].text
    assert "RULES has its own place" in {row.id: row.reason for row in alone.rows()}["files:HINTS.md"]


def test_no_budget_moves_what_all_share(tmp_path: Path) -> None:
    """Whether a person's own part fits does not affect the end of the text before it.

    Seen to fail while the separator was where the last kept section was.
    """
    files = {**RULES, "SYSTEM.md": "Start.\n{{ RULES }}{{ USER_PROFILE }}", "foreword.yaml": PEOPLE}
    files |= {"users/ina/USER.md": "word " * 60_000, "users/ivo/USER.md": "Ivo."}
    ws = make(tmp_path, files)
    turn = replace(TURN, blueprint="osa", model="openai:gpt-4o")
    texts = {ws.assemble(replace(turn, user=user)).prompt.blocks[0].text for user in ("ina", "ivo", "alice")}
    assert texts == {"Start.\nRULE A\n\nRULE B"}


def test_no_block_without_words(tmp_path: Path) -> None:
    """A separator that nothing follows is not sent: a provider refuses a text without a word in it.

    Seen to fail while it was a block of its own.
    """
    blueprint = """name: goose
marker: "[cut]"
marker_without_call: "[cut]"
slots:
  - {id: system, source: template, file: SYSTEM.md, pace: static, trust: public}
  - {id: user, source: file, file: USER.md, per_user: true, variable: P, placement: nested, pace: session, trust: inner}
"""
    files = {
        "SYSTEM.md": "You are Reid.{{ P }}",
        "blueprints/goose.yaml": blueprint,
        "foreword.yaml": PEOPLE,
    }
    turn = replace(TURN, blueprint="goose", user="ivo", model="anthropic:claude-opus-5")
    system = make(tmp_path, files).assemble(turn).envelope().request["system"]
    assert [block["text"] for block in system] == ["You are Reid."]
