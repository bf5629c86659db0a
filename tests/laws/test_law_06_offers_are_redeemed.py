"""Law 6: every call that the prompt offers works exactly as written."""

import ast
import json
import re

import pytest
import yaml
from hypothesis import assume, given
from world_turns import assemble, fitted, turns
from worlds import OWNER, worlds

from foreword.engine.cuts import TOOL_LIST_SOURCES
from foreword.resources import read_blueprint
from foreword.testing import make_workspace
from foreword.turn import Turn
from foreword.types import Mode, Verdict

CALL = re.compile(r'(memory_get|read_section)\(("(?:[^"\\]|\\.)*")(?:, from=(\d+))?(?:, lines=(\d+))?\)')
MARKER = re.compile(r"^[ ]*\[shortened: lines .*\]\s*$", re.MULTILINE)
MENU_LINE = re.compile(r"^- (.+?) \(([\d,]+) tok\)(?: — .*)?$", re.MULTILINE)
INTRODUCTION = re.compile(r"^\(saved for [^)\n]*\)\n")
FENCE = re.compile("`{3,}|~{3,}")
SKILL = re.compile(r'^<skill name="[^"]*" source="skill" path="([^"]*)">$', re.MULTILINE)


def read_all(workspace, assembly, call):
    """Run a call as written, follow its continuations to the end, and return the lines."""
    lines = []
    while call:
        name, target, first, count = CALL.fullmatch(call).groups()
        arguments = {"path" if name == "memory_get" else "id": json.loads(target)}
        arguments |= {"from": int(first)} if first else {}
        arguments |= {"lines": int(count)} if count else {}
        reading = workspace.call(assembly, name, arguments)
        assert reading.first == int(first or 1)
        # Each page after the first repeats the source line.
        text = INTRODUCTION.sub("", reading.text) if reading.first > 1 else reading.text
        assert text.count("\n") + 1 == reading.last - reading.first + 1
        lines += text.split("\n")
        call = reading.more
    return lines


@given(worlds(strict=True), turns())
def test_a_marker_gives_exactly_what_is_missing(world, turn):
    """A shortened section and the result of its marker's call add up to the whole text.

    This holds in any strict blueprint, for template passages, for the slots a template names, and for limits. Seen to
    fail when `write_call` counted lines from 0.
    """
    with world.opened() as workspace:
        assembly = assemble(workspace, turn)
        assume(assembly is not None)
        spans = {span.id: span for span in assembly.prompt.spans}
        for one in fitted(assembly):
            if one.verdict is not Verdict.SHORTENED:
                continue
            span = spans[one.item.id]
            marker = MARKER.search(assembly.prompt.text[span.start : span.end])
            call = CALL.search(marker.group())
            if call is None:
                # The description of read_section is the only text that read_section never offers.
                described = one.item.slot.source in TOOL_LIST_SOURCES and "read_section" not in one.body
                assert described or not assembly.tools.names & {"memory_get", "read_section"}
                continue
            whole = one.item.text.split("\n")
            head, count = int(call[3]) - 1, int(call[4]) if call[4] else None
            shown = one.body.split("\n")
            missing = read_all(workspace, assembly, call.group())[:count]
            behind = len(whole) - head - count if count else 0
            tail = shown[-behind:] if behind else []
            assert shown[:head] + missing + tail == whole
            # Besides the text there is the marker, and the fence that closes or reopens a code block at the cut.
            # A limit may cut a line. The menu repeats its last lines there, which say how to load.
            between = shown[head : len(shown) - behind]
            at = next(at for at, line in enumerate(between) if call.group() in line)
            before = [line for line in between[:at] if not FENCE.fullmatch(line)]
            assert len(before) <= 1
            assert all(missing[0].startswith(line) for line in before)
            after = [line for line in between[at + 1 :] if not FENCE.fullmatch(line)]
            assert one.item.text.endswith("\n".join(after)) or missing[-1].endswith(after[0])


@given(worlds(strict=True), turns())
def test_a_stub_gives_the_whole_text(world, turn):
    """The call in the stub of an omitted text returns that text from the first line to the last.

    Seen to fail when `write_call` counted lines from 0.
    """
    with world.opened() as workspace:
        assembly = assemble(workspace, turn)
        assume(assembly is not None)
        spans = {span.id: span for span in assembly.prompt.spans}
        for one in fitted(assembly):
            span = spans.get(one.item.id)
            if one.verdict is Verdict.DROPPED and span:
                call = CALL.search(assembly.prompt.text[span.start : span.end])
                if call:
                    assert "\n".join(read_all(workspace, assembly, call.group())) == one.item.text


@given(worlds(base="default"), turns(user=OWNER, tools=None, mode=Mode.FULL, situation="dm", room=""))
def test_a_menu_line_is_redeemed_at_its_price(world, turn):
    """Every menu line can be read under the path it names and has the token count it shows.

    Seen to fail when the token count of a memory included its description.
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
            assert f"{assembly.meter.count(whole):,}" == price


NAMES = ["it's.md", 'so "called".md', "with space.md", "übung, 1.md", "a) from=2.md", "<skill>.md"]


@pytest.mark.parametrize("name", NAMES)
def test_a_file_of_any_name_can_be_read_to_its_end(tmp_path, name):
    """A marker and its continuations work for any characters in the file name.

    Seen to fail when `write_call` quoted a name with quotes that the name contains.
    """
    text = "\n".join(f"{at}. a line that is there to be missing later" for at in range(2_000))
    workspace = make_workspace(tmp_path, {f"rules/{name}": text})
    assembly = workspace.assemble(Turn(user="alice", situation="dm", model="openai:gpt-4o"))
    one = next(one for one in fitted(assembly) if one.verdict is Verdict.SHORTENED)
    reading, lines = None, one.body.split("\n[shortened: ")[0].split("\n")
    call = CALL.search(MARKER.search(assembly.prompt.text).group()).group()
    while call:
        tree = ast.parse(call.replace(", from=", ", first="), mode="eval").body
        arguments = {word.arg.replace("first", "from"): word.value.value for word in tree.keywords}
        reading = workspace.call(assembly, tree.func.id, {"path": tree.args[0].value, **arguments})
        lines += reading.text.split("\n")
        call = reading.more
    assert reading is not None
    assert "\n".join(lines) == text


@pytest.mark.parametrize(
    ("memory", "name"), [("memory/social/A.md", "social/A.md"), ("users/alice/memory/A.md", "own/A.md")]
)
def test_two_files_of_one_name_are_told_apart(tmp_path, memory, name):
    """A workspace file and a memory whose paths look alike on the menu are both readable at their token count.

    Seen to fail while the menu named a memory by its path below memory/ only.
    """
    config = f"owner: alice\nusers: {{alice: {{trust: full}}}}\nprompt: {{files: [{{path: {name}}}]}}\n"
    files = {name: "of the workspace\n" * 30_000, memory: "of the memory\n" * 5}
    workspace = make_workspace(tmp_path, {"foreword.yaml": config, **files})
    slots = yaml.safe_load(read_blueprint("default"))
    slots["slots"] = [slot | {"cut": "never"} for slot in slots["slots"]]
    make_workspace(tmp_path, {"foreword.yaml": config, "blueprints/own.yaml": yaml.safe_dump(slots)})
    assembly = workspace.assemble(Turn(user="alice", situation="dm", blueprint="own"))
    lines = MENU_LINE.findall(assembly.prompt.text)
    assert len(lines) == 2
    for path, price in lines:
        whole = "\n".join(read_all(workspace, assembly, f'memory_get("{path}")'))
        assert f"{assembly.meter.count(whole):,}" == price


@given(worlds(base="default"), turns(user=OWNER, tools=None, mode=Mode.FULL, situation="dm", room=""))
def test_a_listed_skill_can_be_read(world, turn):
    """Every listed skill can be read under the path in the listing.

    Seen to fail when path lookup did not include skills.
    """
    with world.opened() as workspace:
        assembly = assemble(workspace, turn)
        assume(assembly is not None and "memory_get" in assembly.tools)
        spans = {span.id: span for span in assembly.prompt.spans}
        assume("skills" in spans)
        bodies = {file.path: file.canary for file in world.planted}
        for path in SKILL.findall(assembly.prompt.text[spans["skills"].start : spans["skills"].end]):
            lines = read_all(workspace, assembly, f'memory_get("{path}/SKILL.md")')
            assert not "".join(lines).strip("\ufeff") or bodies[f"{path}/SKILL.md"] in lines


@pytest.mark.parametrize("name", ["<skill>", "a & b", "&lt;", 'so "called"'])
def test_a_name_is_read_as_it_is_shown(tmp_path, name):
    """A skill or memory whose name looks like a tag can be read by the name that the prompt shows.

    Seen to fail while the reading tools accepted only the names on disk.
    """
    files = {f"skills/{name}/SKILL.md": f"kanari of {name}", f"memory/social/{name}.md": f"kanari too of {name}"}
    workspace = make_workspace(tmp_path, files)
    assembly = workspace.assemble(Turn(user="alice", situation="dm"))
    (skill,) = SKILL.findall(assembly.prompt.text)
    ((memory, _),) = MENU_LINE.findall(assembly.prompt.text)
    for path, text in ((f"{skill}/SKILL.md", f"kanari of {name}"), (memory, f"kanari too of {name}")):
        assert workspace.call(assembly, "memory_get", {"path": path}).text == text
