"""The tool that reads a skill."""

import re
from html import unescape

import pytest

from foreword.agent.tools.reading_tools import SKILL_TOOLS
from foreword.agent.tools.registry import BUILT_IN
from foreword.errors import InputError, UnknownName
from foreword.testing import make_workspace
from foreword.turn import Toolset, Turn

CONFIG = """\
owner: alice
users: {alice: {trust: full}, bob: {trust: familiar}}
prompt: {files: [{path: skills/vault/SKILL.md, trust: full}]}
"""
FILES = {
    "foreword.yaml": CONFIG,
    "skills/tea/SKILL.md": "---\nname: Make tea\ndescription: For guests.\n---\nBoil water.\nWait.\nPour.\n",
    "skills/vault/SKILL.md": "The code is 1234.\n",
    "skills/a/twin/SKILL.md": "The first twin.\n",
    "skills/b/twin/SKILL.md": "The second twin.\n",
    'skills/r&d "x"/SKILL.md': "Odd name.\n",
    "secret/SKILL.md": "No skill.\n",
}


@pytest.fixture
def ws(tmp_path):
    """A workspace with skills."""
    return make_workspace(tmp_path, FILES)


def assemble(ws, user="bob", **facts):
    """Assemble a turn that can open skills."""
    tools = Toolset([*BUILT_IN.tools, *SKILL_TOOLS.tools])
    return ws.assemble(Turn(**{"user": user, "situation": "dm", "model": "openai:gpt-5", "tools": tools, **facts}))


def test_what_the_list_offers(ws):
    """Every path in the list can be read with the call that the list names."""
    assembly = assemble(ws)
    text = assembly.prompt.text
    assert 'by its path: read_skill("PATH").' in text
    assert 'memory_get("PATH' not in text
    paths = re.findall(r'path="([^"]+)"', text)
    assert len(paths) == 4
    for path in paths:
        shown = ws.call(assembly, "read_skill", {"name": path}).text
        assert shown == FILES[f"{unescape(path)}/SKILL.md"].rpartition("---\n")[2].strip()


def test_without_the_tool(ws):
    """A turn without read_skill is given memory_get instead, and cannot call it."""
    assembly = assemble(ws, tools=BUILT_IN)
    assert 'memory_get("PATH/SKILL.md")' in assembly.prompt.text
    with pytest.raises(UnknownName):
        ws.call(assembly, "read_skill", {"name": "tea"})


def test_names(ws):
    """A skill is found by name, folder or path; an ambiguous name asks for the path."""
    assembly = assemble(ws)
    for name in ("Make tea", "tea", "skills/tea", "skills/tea/SKILL.md", "/skills/tea"):
        assert ws.call(assembly, "read_skill", {"name": name}).text.startswith("Boil")
    with pytest.raises(InputError, match="several skills are called 'twin': skills/a/twin, skills/b/twin; name one"):
        ws.call(assembly, "read_skill", {"name": "twin"})


def test_lines(ws):
    """A part of a skill is read by its lines."""
    reading = ws.call(assemble(ws), "read_skill", {"name": "tea", "from": 2, "lines": 1})
    assert (reading.text, reading.total) == ("Wait.", 3)


def test_a_long_skill(tmp_path):
    """A long skill ends with the call for the rest, until all of it was read."""
    body = "".join(f"{number}. Stir for a while.\n" for number in range(2_000))
    ws = make_workspace(tmp_path, {**FILES, "skills/long/SKILL.md": body})
    assembly, call, read = assemble(ws), {"name": "long"}, []
    while call:
        reading = ws.call(assembly, "read_skill", call)
        read.append(reading.text)
        found = re.fullmatch(r'read_skill\("long", from=(\d+)\)', reading.more)
        call = {"name": "long", "from": int(found[1])} if found else None
    assert "\n".join(read) == body.strip()
    assert len(read) > 2


def test_trust(ws):
    """A withheld skill gets the error of a missing one; for strangers that is every skill."""
    said = []
    for name in ("skills/vault", "vault", "skills/nothing", "secret", "secret/SKILL.md", "../secret", "foreword.yaml"):
        with pytest.raises(InputError) as error:
            ws.call(assemble(ws), "read_skill", {"name": name})
        said.append(str(error.value).replace(name, "X"))
    assert set(said) == {"there is no skill 'X' here"}
    assert "vault" not in assemble(ws).prompt.text
    assert "read_skill" not in assemble(ws, user="eve").tools


@pytest.mark.parametrize("arguments", [{}, {"name": 3}, {"name": "tea", "from": 0}, {"name": "tea", "from": 99}])
def test_bad_input(ws, arguments):
    """Invalid arguments are refused with a reason."""
    with pytest.raises(InputError):
        ws.call(assemble(ws), "read_skill", arguments)
