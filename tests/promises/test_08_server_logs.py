"""Item 8, server logs: every line of `serve` has a time, and none has raw JSON."""

import io
import re

from recorded_house import run_house, say

from foreword.testing import ScriptedCall, ScriptedError, ScriptedReply

LINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ  *(?:warn |error )?\[\w+\] \w+( .*)?")


def test_lines_have_times_and_no_json(tmp_path):
    """Turns with tools, an edit, a failure and arguments log lines with times and without JSON."""
    stream = io.StringIO()
    config = (
        'owner: alice\nagents: {reid: {model: "anthropic:claude-sonnet-5", blueprint: coop}}\n'
        "users: {alice: {trust: full}}\nevents: {arguments: true}\n"
    )

    async def talk(house):
        await say(house, "Look", situation="group")
        await say(house, "Go")
        (tmp_path / "SOUL.md").write_text("Loud.\n")
        await say(house, "And again")
        house.provider.follow(ScriptedError(status=400, message='{"detail": [{"msg": "no"}]}'))
        await say(house, "Once more")

    script = (
        ScriptedReply(calls=(ScriptedCall(name="memory_search", arguments={"query": "plum tree", "limit": 3}),)),
        ScriptedReply(
            calls=(ScriptedCall(name="task_write", arguments={"tasks": [{"title": "Dig", "status": "active"}]}),)
        ),
        ScriptedReply(text="Yes."),
        ScriptedReply(text="Yes."),
        ScriptedReply(text="Yes."),
    )
    run_house(tmp_path, talk, *script, config=config, tree=stream)
    lines = stream.getvalue().splitlines()
    assert len(lines) > 20
    for line in lines:
        assert LINE.fullmatch(line), line
        assert not re.search(r"[\[{]\"|\"[\]}]|\":|\[\[|\{'", line.replace('="', "=")), line
    text = stream.getvalue()
    assert 'query="plum tree"' in text
    assert "limit=3" in text
    assert "tasks=(1 entry)" in text
