"""Law 6: whatever the prompt offers is redeemed by the very call it names."""

import ast
import html
import re

import pytest
import yaml
from hypothesis import assume, given
from worlds import assemble, fitted, turns, worlds

from foreword.shipped import read_blueprint
from foreword.testing import make_workspace
from foreword.turn import Turn
from foreword.words import Mode, Verdict

CALL = re.compile(r'(memory_get|read_section)\("([^"]*)"(?:, from=(\d+))?(?:, lines=(\d+))?\)')
MENU_LINE = re.compile(r"^- (.+?) \(([\d,]+) tok\)(?: — .*)?$", re.MULTILINE)
SKILL = re.compile(r'^<skill name="[^"]*" source="skill" path="([^"]*)">$', re.MULTILINE)


def read_all(workspace, assembly, call):
    """Make a call as it is written, follow it to its end, and return the lines."""
    lines = []
    while call:
        name, target, first, count = CALL.fullmatch(call).groups()
        arguments = {"path" if name == "memory_get" else "id": target}
        arguments |= {"from": int(first)} if first else {}
        arguments |= {"lines": int(count)} if count else {}
        reading = workspace.call(assembly, name, arguments)
        assert reading.first == int(first or 1)
        assert reading.text.count("\n") + 1 == reading.last - reading.first + 1
        lines += reading.text.split("\n")
        call = reading.more
    return lines


@given(worlds(base="default"), turns())
def test_a_marker_gives_exactly_what_is_missing(world, turn):
    """What a shortened section shows and what its marker's call gives are together the whole text.

    Seen to fail when `write_call` counted lines from 0.
    """
    with world.opened() as workspace:
        assembly = assemble(workspace, turn)
        assume(assembly is not None)
        spans = {span.id: span for span in assembly.prompt.spans}
        for one in fitted(assembly):
            if one.verdict is not Verdict.SHORTENED:
                continue
            span = spans[one.item.id]
            marker = re.search(r"^\[shortened: lines .*\]$", assembly.prompt.text[span.start : span.end], re.MULTILINE)
            call = CALL.search(marker.group())
            if call is None:
                assert not assembly.terms.tools.names & {"memory_get", "read_section"}
                continue
            whole = one.item.text.split("\n")
            head, count = int(call[3]) - 1, int(call[4]) if call[4] else None
            shown = one.body.split("\n")
            missing = read_all(workspace, assembly, call.group())[:count]
            tail = shown[-(len(whole) - head - count) :] if count else []
            assert shown[:head] + missing + tail == whole
            # Beyond the text itself there is the marker, and what closes a code block that the cut left open.
            # The menu repeats its own last lines there, which say how to load.
            between = shown[head : len(shown) - len(tail)]
            at = next(at for at, line in enumerate(between) if call.group() in line)
            assert at == 0 or (at == 1 and re.fullmatch("`{3,}|~{3,}", between[0]))
            assert one.item.text.endswith("\n".join(between[at + 1 :]))


@given(worlds(base="default"), turns())
def test_a_stub_gives_the_whole_text(world, turn):
    """The call that stands in the place of a text that was left out gives that text from its first line to its last.

    Seen to fail when `write_call` counted lines from 0.
    """
    with world.opened() as workspace:
        assembly = assemble(workspace, turn)
        assume(assembly is not None)
        for one in fitted(assembly):
            if one.verdict is Verdict.DROPPED and (call := CALL.search(one.body)):
                assert "\n".join(read_all(workspace, assembly, call.group())) == one.item.text


@given(worlds(base="default"), turns(tools=None, mode=Mode.FULL, situation="dm", room=""))
def test_a_menu_line_is_redeemed_at_its_price(world, turn):
    """Every line of the menu can be read under the path it names, and weighs what it says.

    Seen to fail when `price_memory` counted the description as well.
    """
    with world.opened() as workspace:
        assembly = assemble(workspace, turn)
        assume(assembly is not None)
        spans = {span.id: span for span in assembly.prompt.spans}
        assume("menu" in spans)
        text = assembly.prompt.text[spans["menu"].start : spans["menu"].end]
        lines = MENU_LINE.findall(text)
        assert lines or "[shortened: " in text or "[left out here: " in text
        for path, price in lines:
            whole = "\n".join(read_all(workspace, assembly, f'memory_get("{path}")'))
            assert f"{assembly.terms.meter.count(whole):,}" == price


NAMES = ["it's.md", 'so "called".md', "with space.md", "übung, 1.md", "a) from=2.md"]


@pytest.mark.parametrize("name", NAMES)
def test_a_file_of_any_name_can_be_read_to_its_end(tmp_path, name):
    """A marker and its continuations can be followed whatever signs the name of the file has.

    Seen to fail when `write_call` put a name between quotes that the name itself contains.
    """
    text = "\n".join(f"{at}. a line that is there to be missing later" for at in range(2_000))
    workspace = make_workspace(tmp_path, {f"rules/{name}": text})
    assembly = workspace.assemble(Turn(user="alice", situation="dm", model="openai:gpt-4o"))
    one = next(one for one in fitted(assembly) if one.verdict is Verdict.SHORTENED)
    reading, lines = None, one.body.split("\n[shortened: ")[0].split("\n")
    call = one.body.rpartition("read them with ")[2].removesuffix("]")
    while call:
        tree = ast.parse(call.replace(", from=", ", first="), mode="eval").body
        arguments = {word.arg.replace("first", "from"): word.value.value for word in tree.keywords}
        reading = workspace.call(assembly, tree.func.id, {"path": tree.args[0].value, **arguments})
        lines += reading.text.split("\n")
        call = reading.more
    assert reading is not None
    assert "\n".join(lines) == text


def test_two_files_of_one_name_are_told_apart(tmp_path):
    """A file of the workspace and a memory whose paths look alike on the menu are each read at their price.

    Seen to fail while the menu named a memory by its path below memory/ only.
    """
    config = "owner: alice\nusers: {alice: {trust: full}}\nprompt: {files: [{path: social/A.md}]}\n"
    files = {"social/A.md": "of the workspace\n" * 30_000, "memory/social/A.md": "of the memory\n" * 5}
    workspace = make_workspace(tmp_path, {"foreword.yaml": config, **files})
    slots = yaml.safe_load(read_blueprint("default"))
    slots["slots"] = [slot | {"cut": "never"} for slot in slots["slots"]]
    make_workspace(tmp_path, {"foreword.yaml": config, "blueprints/own.yaml": yaml.safe_dump(slots)})
    assembly = workspace.assemble(Turn(user="alice", situation="dm", blueprint="own"))
    lines = MENU_LINE.findall(assembly.prompt.text)
    assert len(lines) == 2
    for path, price in lines:
        whole = "\n".join(read_all(workspace, assembly, f'memory_get("{path}")'))
        assert f"{assembly.terms.meter.count(whole):,}" == price


@given(worlds(base="default"), turns(tools=None, mode=Mode.FULL, situation="dm", room=""))
def test_a_listed_skill_can_be_read(world, turn):
    """Every skill of the listing can be read under the path that the listing names.

    Seen to fail when `find_path` did not look for skills.
    """
    with world.opened() as workspace:
        assembly = assemble(workspace, turn)
        assume(assembly is not None and "memory_get" in assembly.terms.tools)
        spans = {span.id: span for span in assembly.prompt.spans}
        assume("skills" in spans)
        bodies = {file.path: file.canary for file in world.planted}
        for path in SKILL.findall(assembly.prompt.text[spans["skills"].start : spans["skills"].end]):
            name = f"{html.unescape(path)}/SKILL.md"
            lines = read_all(workspace, assembly, f'memory_get("{name}")')
            assert not "".join(lines).strip("\ufeff") or bodies[name] in lines
