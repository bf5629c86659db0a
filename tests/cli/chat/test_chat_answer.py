"""Claims about an answer while it comes."""

import asyncio
import io
from dataclasses import replace

from chat_terminal import COLUMNS, ROWS, Screen
from rich.console import Console

from foreword.cli.chat.answer import Drawn, Written
from foreword.gateway.message import Reply, State
from foreword.runtime.ears import Anew, Calling, Returned, Words
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


def make_reply(state: State, text: str = "") -> Reply:
    """Make what came of a turn."""
    return Reply(turn="t", session="s", agent="reid", user="alice", state=state, text=text, received=NOON)


def draw(deltas, reply: Reply, pause: float = 0.0, rows: int = ROWS) -> str:
    """Draw an answer, and read the screen when it has ended."""
    out = io.StringIO()

    async def hear() -> None:
        answer = Drawn(Console(file=out, force_terminal=True, width=COLUMNS, height=rows, highlight=False))
        for delta in deltas:
            answer.hear(delta)
            await asyncio.sleep(pause)
        answer.end(reply)

    asyncio.run(hear())
    screen = Screen()
    screen.draw(out.getvalue().replace("\n", "\r\n"))
    return screen.text.strip()


def cut(text: str, size: int = 3) -> list[Words]:
    """Cut a text into the pieces in which it comes."""
    return [Words(text=text[at : at + size]) for at in range(0, len(text), size)]


def test_streamed_as_at_once():
    """What is left on the screen of an answer that came in pieces is what one that came at once leaves."""
    reply = make_reply(State.ANSWERED, TEXT)
    slow = draw(cut(TEXT), reply, pause=0.004)
    assert slow == draw([Words(text=TEXT)], reply) == draw([], reply)
    assert slow.count("choir") == 1
    assert "That is all." in slow.splitlines()[-1]


def test_higher_than_the_screen():
    """An answer that is higher than the screen is there once, and whole."""
    text = "".join(f"- item {number}\n" for number in range(60))
    shown = draw(cut(text, 40), make_reply(State.ANSWERED, text), pause=0.01, rows=12)
    assert [shown.count(f"item {number}\n") for number in range(59)] == [1] * 59


def test_tools_are_quiet_lines():
    """A tool is a line between the words, and one that failed says so."""
    deltas = [Words(text="I look."), Calling(name="logs\x1b[2J"), Returned(name="logs", done=False), Words(text="No.")]
    lines = draw(deltas, make_reply(State.ANSWERED, "No.")).splitlines()
    assert [line.strip() for line in lines if line.strip()] == ["I look.", "· logs�[2J …", "· logs failed", "No."]


def test_taken_back():
    """Words that are taken back are followed by a line that says so."""
    shown = draw(
        [Words(text="It was"), Anew(), Words(text="Good morning.")], make_reply(State.ANSWERED, "Good morning.")
    )
    assert shown.index("It was") < shown.index("does not count") < shown.index("Good morning.")


def test_no_answer():
    """What a person is told instead of an answer is shown, and a stopped one says that it was."""
    assert draw([], make_reply(State.FAILED, "The model\x1b[2J could not")) == "The model�[2J could not"
    assert draw([Words(text="It was")], make_reply(State.STOPPED)).split() == ["It", "was", "stopped"]


def test_kept():
    """A message that is kept for later says what has to run for it to be answered."""
    for text in ("The model cannot be reached.", ""):
        out, aside = write([], make_reply(State.QUEUED, text))
        assert (out, aside.startswith(text)) == ("", True)
        assert "while foreword chat or foreword serve runs" in aside


def test_cut():
    """An answer that reached its limit is followed by a line that says so, which is no word of the agent."""
    reply = replace(make_reply(State.ANSWERED, "It was a"), cut=True)
    assert draw(cut("It was a"), reply).splitlines() == ["It was a", "(cut: the answer reached its limit)"]
    assert write(cut("It was a"), reply) == ("It was a\n", "(cut: the answer reached its limit)\n")


def write(deltas, reply: Reply) -> tuple[str, str]:
    """Write an answer where there is no terminal."""
    out, aside = io.StringIO(), io.StringIO()
    answer = Written(out, aside)
    for delta in deltas:
        answer.hear(delta)
    answer.end(reply)
    return out.getvalue(), aside.getvalue()


def test_written():
    """Without a terminal the words are plain text as the model wrote them, and everything else stands beside them."""
    deltas = [
        *cut("# One\x1b[31m\n\n**two**"),
        Calling(name="cost"),
        Returned(name="cost", done=True),
        Words(text="three"),
    ]
    out, aside = write(deltas, make_reply(State.ANSWERED, "three"))
    assert out == "# One�[31m\n\n**two**\nthree\n"
    assert aside == "· cost …\n"


def test_written_without_words():
    """An answer that was not heard is written whole, and a failure is told beside."""
    assert write([], make_reply(State.ANSWERED, "Yes.")) == ("Yes.\n", "")
    assert write([], make_reply(State.FAILED, "No.")) == ("", "No.\n")
