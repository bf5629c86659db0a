"""Rendering of an answer during streaming."""

import asyncio
import io
from dataclasses import replace

from chat_terminal import COLUMNS, ROWS, Screen
from rich.console import Console

from foreword.agent.agent_events import CallRestarted, TextDelta, ToolFinished, ToolStarted
from foreword.cli.chat.renderer import TerminalMarkdown, TextRenderer
from foreword.storage.turns import TurnReply, TurnState
from foreword.testing import NOON

TEXT = """\
# The week

On **Monday** there is choir,
on Tuesday there is none.

- one
- two

```python
x = 1

y = 2
```

That is all.
"""


def make_reply(state: TurnState, text: str = "") -> TurnReply:
    """Make the reply of a turn."""
    return TurnReply(turn="t", session="s", agent="reid", user="alice", state=state, text=text, received=NOON)


def draw(deltas, reply: TurnReply, pause: float = 0.0, rows: int = ROWS) -> str:
    """Draw an answer and return the final screen."""
    out = io.StringIO()

    async def hear() -> None:
        answer = TerminalMarkdown(Console(file=out, force_terminal=True, width=COLUMNS, height=rows, highlight=False))
        for delta in deltas:
            answer.show(delta)
            await asyncio.sleep(pause)
        answer.end(reply)

    asyncio.run(hear())
    screen = Screen()
    screen.draw(out.getvalue().replace("\n", "\r\n"))
    return screen.text.strip()


def cut(text: str, size: int = 3) -> list[TextDelta]:
    """Split a text into deltas."""
    return [TextDelta(text=text[at : at + size]) for at in range(0, len(text), size)]


def test_streamed_as_at_once():
    """A streamed answer gives the same screen as an answer in one part."""
    reply = make_reply(TurnState.ANSWERED, TEXT)
    slow = draw(cut(TEXT), reply, pause=0.004)
    assert slow == draw([TextDelta(text=TEXT)], reply) == draw([], reply)
    assert slow.count("choir") == 1
    assert "That is all." in slow.splitlines()[-1]


def test_higher_than_the_screen():
    """An answer higher than the screen is shown completely and once."""
    text = "".join(f"- item {number}\n" for number in range(60))
    shown = draw(cut(text, 40), make_reply(TurnState.ANSWERED, text), pause=0.01, rows=12)
    assert [shown.count(f"item {number}\n") for number in range(59)] == [1] * 59


def test_tools_are_quiet_lines():
    """A tool call is one line between the text, and a failed one says so."""
    deltas = [
        TextDelta(text="I look."),
        ToolStarted(name="logs\x1b[2J"),
        ToolFinished(name="logs", done=False),
        TextDelta(text="No."),
    ]
    lines = draw(deltas, make_reply(TurnState.ANSWERED, "No.")).splitlines()
    assert [line.strip() for line in lines if line.strip()] == ["I look.", "· logs�[2J …", "· logs failed", "No."]


def test_taken_back():
    """A line marks discarded partial text."""
    shown = draw(
        [TextDelta(text="It was"), CallRestarted(), TextDelta(text="Good morning.")],
        make_reply(TurnState.ANSWERED, "Good morning."),
    )
    assert shown.index("It was") < shown.index("ignore the partial answer") < shown.index("Good morning.")


def test_no_answer():
    """An error is shown instead of an answer, and a stopped answer says so."""
    assert draw([], make_reply(TurnState.FAILED, "The model\x1b[2J could not")) == "The model�[2J could not"
    assert draw([TextDelta(text="It was")], make_reply(TurnState.STOPPED)).split() == ["It", "was", "stopped"]


def test_kept():
    """For a queued message the chat names the commands that lead to an answer."""
    for text in ("The model cannot be reached.", ""):
        out, aside = write([], make_reply(TurnState.QUEUED, text))
        assert (out, aside.startswith(text)) == ("", True)
        assert "while foreword chat or foreword serve runs" in aside


def test_cut():
    """An answer that reached its limit is followed by a line that says so, separate from the agent's text."""
    reply = replace(make_reply(TurnState.ANSWERED, "It was a"), cut=True)
    assert draw(cut("It was a"), reply).splitlines() == ["It was a", "(cut: the answer reached its limit)"]
    assert write(cut("It was a"), reply) == ("It was a\n", "(cut: the answer reached its limit)\n")


def write(deltas, reply: TurnReply) -> tuple[str, str]:
    """Render an answer without a terminal."""
    out, aside = io.StringIO(), io.StringIO()
    answer = TextRenderer(out, aside)
    for delta in deltas:
        answer.show(delta)
    answer.end(reply)
    return out.getvalue(), aside.getvalue()


def test_written():
    """Without a terminal stdout gets the model's plain text, and everything else goes to stderr."""
    deltas = [
        *cut("# One\x1b[31m\n\n**two**"),
        ToolStarted(name="cost"),
        ToolFinished(name="cost", done=True),
        TextDelta(text="three"),
    ]
    out, aside = write(deltas, make_reply(TurnState.ANSWERED, "three"))
    assert out == "# One�[31m\n\n**two**\nthree\n"
    assert aside == "· cost …\n"


def test_written_without_words():
    """An answer without deltas is written whole, and a failure goes to stderr."""
    assert write([], make_reply(TurnState.ANSWERED, "Yes.")) == ("Yes.\n", "")
    assert write([], make_reply(TurnState.FAILED, "No.")) == ("", "No.\n")
