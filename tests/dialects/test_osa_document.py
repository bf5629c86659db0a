"""The document of `osa`: which one is used, its values, how often it is rendered, and how it is cached."""

import logging
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from dialect_case import ask, at, find_row, find_section, list_headings
from osa_case import BUSY, END, HOUSE, SECTIONS, TOOLS, say, split_blocks

from foreword.engine.sources.sections import log_once
from foreword.testing import make_workspace, write_files
from foreword.turn import Tool, Toolset
from foreword.types import Pace, Trust

CLAUDE = "anthropic:claude-opus-5"
VARIABLES = "# Mine\n\n{{TOOL_DEFINITIONS}}\n\n{{RULES}}\n\n{{USER_PROFILE}}\n\nThe end.\n"
LEGACY = {"IDENTITY.md": "You are Wren.\n", "SOUL.md": "Fond of tides.\n"}
WHERE = {"IDENTITY.md": "## 2. IDENTITY", "SOUL.md": "## 4. PERSONALITY"}


def read(folder: Path, files: dict[str, str], **facts: object) -> str:
    """Return the document of a turn."""
    return split_blocks(say(folder, files, **facts).prompt.text)[0]


def test_variables(tmp_path: Path) -> None:
    """The document has three variables: tools, rules and profile."""
    assert read(tmp_path, {**HOUSE, "SYSTEM.md": VARIABLES}, tools=TOOLS).split("\n\n") == [
        "# Mine",
        "- file_read(): Read a file.\n- tide(): Tell the tide.",
        "Heat to 20 °C.",
        "Lock the door.",
        "The user's name is Alice.\nShe keeps bees.",
        "The end.",
    ]


def test_tools_have_signatures(tmp_path: Path) -> None:
    """The tool list has the tools' parameters."""
    properties = {"path": {"type": "string"}}
    tool = Tool(name="file_read", parameters={"type": "object", "properties": properties}, trust=Trust.PUBLIC)
    assert "path" in read(tmp_path, {"SYSTEM.md": "{{TOOL_DEFINITIONS}}\n"}, tools=Toolset([tool]))


def test_bundled_document_has_the_variables(tmp_path: Path) -> None:
    """In the bundled document tools and rules end section 5, and the profile is the last section."""
    document = read(tmp_path, HOUSE, tools=TOOLS)
    policy = find_section(document, "## 5. TOOL USAGE POLICY")
    assert "\n\n- file_read(): Read a file.\n- tide(): Tell the tide.\n\n" in policy
    assert policy.endswith("\n\nHeat to 20 °C.\n\nLock the door.")
    assert document.endswith("\n\n## User Profile\nThe user's name is Alice.\nShe keeps bees.")


def test_values_are_never_expanded(tmp_path: Path) -> None:
    """Filled-in values are text; braces in them are not expanded."""
    files = {**HOUSE, "SYSTEM.md": VARIABLES, "rules/a.md": "Say {{ USER_PROFILE }} and {% if x %}.\n"}
    assert "\n\nSay {{ USER_PROFILE }} and {% if x %}.\n\n" in read(tmp_path, files)


def test_braces_in_other_files_are_text(tmp_path: Path) -> None:
    """Only the document is a template."""
    assert "Say {{ name }}." in read(tmp_path, {"SOUL.md": "Say {{ name }}.\n"})


def test_unknown_variable(tmp_path: Path) -> None:
    """An unknown variable renders as nothing and is reported."""
    assembly = say(tmp_path, {"SYSTEM.md": "One{{ NOPE }}.\n"})
    assert assembly.prompt.text.startswith(f"One.{END}")
    assert "unknown variables are left out: NOPE" in find_row(assembly, "system").reason


@pytest.mark.parametrize(
    ("files", "document"),
    [
        ({"SYSTEM.md": "Mine.\n"}, "Mine."),
        ({"SYSTEM.md": "Mine.\n", **LEGACY}, "Mine."),
        ({"SYSTEM.md": "Mine.\n", "agents/reid/SYSTEM.md": "Reid's.\n"}, "Reid's."),
        ({"SYSTEM.md": "<!-- note -->\nMine.\n"}, "Mine."),
    ],
)
def test_own_document(tmp_path: Path, files: dict[str, str], document: str) -> None:
    """The owner's document is used unchanged, and old files are ignored."""
    assert read(tmp_path, files) == document


@pytest.mark.parametrize("text", [None, "", "\n", "<!-- note -->\n"])
def test_bundled_document(tmp_path: Path, text: str | None) -> None:
    """Without a document, or with a blank one, the bundled one is used."""
    assembly = say(tmp_path, {} if text is None else {"SYSTEM.md": text})
    assert list_headings(split_blocks(assembly.prompt.text)[0]) == SECTIONS[:-1]
    assert "built-in osa/system" in find_row(assembly, "system").reason


@pytest.mark.parametrize("text", ["{% set x = 1 %}", "{{ unclosed", "{% include 'a' %}", "{{ 2 * 3 }}"])
def test_broken_document(tmp_path: Path, text: str) -> None:
    """An invalid template is replaced by the bundled document, and the report says why."""
    assembly = say(tmp_path, {"SYSTEM.md": f"BROKEN {text}\n"})
    assert assembly.prompt.text.startswith("## 1. SECURITY\n")
    assert "BROKEN" not in assembly.prompt.text
    assert find_row(assembly, "system").reason.startswith("SYSTEM.md ")


@pytest.mark.parametrize("names", [("IDENTITY.md",), ("SOUL.md",), ("IDENTITY.md", "SOUL.md")])
def test_legacy(tmp_path: Path, names: tuple[str, ...]) -> None:
    """Old files replace their sections of the bundled document; all other sections are unchanged."""
    bundled = read(tmp_path / "bundled", {})
    assembly = say(tmp_path / "legacy", {name: LEGACY[name] for name in names})
    document = split_blocks(assembly.prompt.text)[0]
    replaced = {WHERE[name]: LEGACY[name].strip() for name in names}
    for heading in SECTIONS[:-1]:
        assert find_section(document, heading) == replaced.get(heading, find_section(bundled, heading))
    for name in names:
        assert "consider moving" in find_row(assembly, name.partition(".")[0].lower()).reason
        assert (tmp_path / "legacy" / name).read_text() == LEGACY[name]


def test_legacy_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The use of old files is logged once, however many turns there are."""
    log_once.cache_clear()
    ws = make_workspace(tmp_path, LEGACY)
    with caplog.at_level(logging.INFO, "foreword"):
        for hour in (12, 13):
            ws.assemble(ask("osa", now=at(hour)))
    assert [record.message for record in caplog.records if "legacy" in record.message] == [
        "a legacy IDENTITY.md or SOUL.md is used; consider moving it into SYSTEM.md"
    ]


def test_threads_log_legacy_once(tmp_path: Path) -> None:
    """Two threads that assemble at the same time log the hint once, also when the log is slow."""
    log_once.cache_clear()
    messages: list[str] = []

    class Slow(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            time.sleep(0.2)
            messages.append(record.getMessage())

    logger, handler = logging.getLogger("foreword"), Slow(logging.INFO)
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda name: say(tmp_path / name, LEGACY), ("one", "two")))
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
    assert len([message for message in messages if "legacy" in message]) == 1


def test_unused_legacy_is_not_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """With a SYSTEM.md, unused old files are not logged."""
    log_once.cache_clear()
    with caplog.at_level(logging.INFO, "foreword"):
        say(tmp_path, {**LEGACY, "SYSTEM.md": "Mine.\n"})
    assert [record.message for record in caplog.records if "legacy" in record.message] == []


def test_blocks_on_the_wire(tmp_path: Path) -> None:
    """For Anthropic the document is the first block, with a cache breakpoint; the changing blocks have none."""
    assembly = say(tmp_path, {"rules/a.md": "Heat.\n"}, **{**BUSY, "model": CLAUDE})
    document, dynamic = assembly.envelope().request["system"]
    assert document["cache_control"] == {"type": "ephemeral"}
    assert document["text"].startswith("## 1. SECURITY\n")
    assert document["text"].endswith("offer it and wait.")
    assert dynamic.keys() == {"type", "text"}
    assert dynamic["text"].startswith(f"{END}## Active Signal: ")
    assert document["text"] + dynamic["text"] == assembly.prompt.text


def test_profile_on_the_wire(tmp_path: Path) -> None:
    """A profile is a separate cached block, since it belongs to one user."""
    system = say(tmp_path, HOUSE, **{**BUSY, "model": CLAUDE}).envelope().request["system"]
    assert ["cache_control" in block for block in system] == [True, True, False]
    assert system[1]["text"].startswith("\n\n## User Profile\nThe user's name is Alice.\n")


@pytest.mark.parametrize("model", ["openai:gpt-5", "ollama:llama", "groq:llama"])
def test_one_string_for_others(tmp_path: Path, model: str) -> None:
    """A provider without cache breakpoints gets the document and the blocks as one text."""
    assembly = say(tmp_path, HOUSE, **{**BUSY, "model": model})
    first = assembly.envelope().request["messages"][0]
    assert first == {"role": "system", "content": assembly.prompt.text}


@pytest.mark.parametrize("model", ["openai:gpt-5", CLAUDE])
def test_document_is_made_once(tmp_path: Path, model: str) -> None:
    """Over messages, hours, tasks and modes the document is the same object, rendered and counted once."""
    ws = make_workspace(tmp_path, HOUSE)
    said = [{"message": "run it"}, {"message": "why?", "plan": True}, {"now": at(23)}, {"state": BUSY["state"]}]
    blocks = [ws.assemble(ask("osa", model=model, tools=TOOLS, **facts)).prompt.blocks for facts in said]
    assert {block.pace for block in blocks[0][:2]} == {Pace.STATIC, Pace.SESSION}
    assert all(turn[0] is blocks[0][0] and turn[1] is blocks[0][1] for turn in blocks)
    assert len({turn[-1].text for turn in blocks}) == len(said)


@pytest.mark.parametrize(
    ("path", "text"),
    [("SYSTEM.md", "Mine.\n"), ("rules/c.md", "New.\n"), ("IDENTITY.md", "You are Wren.\n"), ("SOUL.md", "Calm.\n")],
)
def test_document_is_made_again(tmp_path: Path, path: str, text: str) -> None:
    """After an edit and a reload the document is rendered once; after a revert it is the old text again."""
    ws = make_workspace(tmp_path, HOUSE)
    before, same = (ws.assemble(ask("osa", now=at(hour))).prompt.blocks[0] for hour in (12, 13))
    write_files(tmp_path, {path: text})
    ws.refresh(now=True)
    after, again = (ws.assemble(ask("osa", now=at(hour))).prompt.blocks[0] for hour in (14, 15))
    assert same is before
    assert again is after
    assert after.text != before.text
    assert text.strip() in after.text
    (tmp_path / path).unlink()
    ws.refresh(now=True)
    assert ws.assemble(ask("osa")).prompt.blocks[0].text == before.text


def test_profile_is_read_again(tmp_path: Path) -> None:
    """An edit of the profile changes the profile's block, and not the document's text."""
    ws = make_workspace(tmp_path, HOUSE)
    before = ws.assemble(ask("osa")).prompt.blocks
    write_files(tmp_path, {"USER.md": "She sails.\n"})
    ws.refresh(now=True)
    after = ws.assemble(ask("osa")).prompt.blocks
    assert after[0].text == before[0].text
    assert after[1].text == f"\n\n## User Profile\nShe sails.{END}"


def test_other_tools_are_another_document(tmp_path: Path) -> None:
    """Other tools give another document; the old tools give the old one."""
    ws = make_workspace(tmp_path, {})
    one, other, again = (ws.assemble(ask("osa", tools=tools)).prompt.blocks[0] for tools in (TOOLS, Toolset(), TOOLS))
    assert one.text != other.text
    assert again is one


def test_document_is_the_same_for_everybody(tmp_path: Path) -> None:
    """The document that is cached for all users does not depend on a user's profile."""
    config = "owner: carol\nusers: {carol: {trust: inner}, dora: {trust: inner}}\n"
    ws = make_workspace(tmp_path, {"foreword.yaml": config, "USER.md": "She sails.\n"})
    one, other = (ws.assemble(ask("osa", user=user)).prompt.blocks[0].text for user in ("carol", "dora"))
    assert one.removesuffix(END) == other.removesuffix(END)
