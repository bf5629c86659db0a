"""Law 7: spans cover the text exactly; the flat text equals the blocks joined."""

import pytest
from hypothesis import assume, given
from world_turns import assemble, turns
from worlds import worlds

from foreword.envelope import SHAPES
from foreword.testing import make_workspace
from foreword.turn import Turn
from foreword.types import Placement


def find_parts(shape, request):
    """Return the system text of a request and the text parts of its newest message."""
    if shape == "anthropic":
        system = "".join(block["text"] for block in request.get("system", ()))
        newest = request["messages"][-1]["content"] if request["messages"] else []
    elif shape == "openai":
        system = "".join(said["content"] for said in request["messages"] if said["role"] == "system")
        newest = request["messages"][-1]["content"] if request["messages"] else []
    elif shape == "responses":
        system, newest = request.get("instructions", ""), request["input"][-1]["content"] if request["input"] else []
    elif shape == "gemini":
        system = "".join(part["text"] for part in request.get("systemInstruction", {"parts": []})["parts"])
        newest = request["contents"][-1]["parts"] if request["contents"] else []
    else:
        return request["system"], [said["text"] for said in request["messages"]]
    return system, [part["text"] for part in newest if isinstance(part, dict)]


@given(worlds(), turns())
def test_spans_cover_the_text(world, turn):
    """Every character belongs to exactly one span, in order, and the blocks joined are the text.

    Seen to fail when the length of a span did not include its separator.
    """
    with world.opened() as workspace:
        assembly = assemble(workspace, turn)
        assume(assembly is not None)
        shown = assembly.to_dict()
        at = 0
        for span in assembly.prompt.spans:
            assert span.start == at < span.end
            at = span.end
        assert at == len(assembly.prompt.text)
        assert "".join(block["text"] for block in shown["blocks"]) == shown["text"] == assembly.prompt.text
        places = [tuple(section["span"]) for section in shown["sections"] if section["span"]]
        assert sorted(places) == [(span.start, span.end) for span in assembly.prompt.spans]
        order = [block.placement for block in assembly.prompt.blocks]
        assert order == sorted(order, key=lambda placement: placement is Placement.TAIL)


@pytest.mark.parametrize("base", ["default", "osa"])
@pytest.mark.parametrize("between", ["", " and ", "{{ USER_PROFILE }}", "{% if USER_PROFILE %}{{ RULES }}{% endif %}"])
def test_what_a_template_names_twice_stands_once(tmp_path, base, between):
    """A slot that a template names twice is rendered once and has one span, even after a per-user slot.

    Seen to fail while the static part and the later part of a template did not share the list of their slots.
    """
    config = f"owner: alice\nusers: {{alice: {{trust: full}}}}\nagents: {{reid: {{blueprint: {base}}}}}\n"
    template = f"{{{{ RULES }}}}{between}{{{{ RULES }}}} {{{{ RULES }}}}"
    files = {"foreword.yaml": config, "SYSTEM.md": template, "rules/a.md": "kanari", "USER.md": "Alice."}
    assembly = make_workspace(tmp_path, files).assemble(Turn(user="alice", situation="dm"))
    assert assembly.prompt.text.count("kanari") == 1
    assert [span.id for span in assembly.prompt.spans].count("rules:a.md") == 1


@given(worlds(), turns())
def test_every_envelope_carries_the_text(world, turn):
    """In every provider's format the system part and the tail add up to the text that explain shows.

    Seen to fail when the envelope joined its system blocks with a line break.
    """
    with world.opened() as workspace:
        assembly = assemble(workspace, turn)
        assume(assembly is not None)
        text = assembly.prompt.text
        tail = "".join(block.text for block in assembly.prompt.blocks if block.placement is Placement.TAIL)
        for shape in SHAPES:
            system, newest = find_parts(shape, assembly.envelope(shape).request)
            assert system + tail == text
            assert not tail or newest[0] == tail or (shape == "plain" and tail in newest[-2:])
