"""Claims about `foreword chat` at a terminal: the real program in a pseudo-terminal, against a provider on loopback."""

import stat
import threading
from contextlib import closing

import pytest

from foreword.gateway.lane import Lane
from foreword.gateway.telling import tell_there
from foreword.store.state import open_state
from foreword.testing import Called, Hangs, Says
from foreword.words import Trust


def list_said(provider, number=-1) -> list[str]:
    """List who spoke in a request."""
    return [message["role"] for message in provider.requests[number].body["messages"]]


def test_a_conversation(chat, provider, folder):
    """The chat says who is there, draws answers as Markdown and tools as quiet lines, and goes on until Ctrl-D."""
    call = Called(name="memory_search", arguments={"query": "choir"})
    provider.follow(Says(text="# Today\n\nI **look**.", calls=(call,)), Says(text="There is **choir**."))
    terminal = chat()
    terminal.see("reid · anthropic:claude-sonnet-5 · clearance full, because alice is full and a dm allows full")
    terminal.see("a new conversation")
    terminal.send("What is on today?")
    terminal.see("There is choir.")
    assert read_after(terminal, "Today") == ["I look.", "· memory_search …", "There is choir."]
    terminal.wait_for_prompt()
    terminal.type("one\x1b\rtwo")  # Alt-Enter begins a new line
    terminal.see("  two")
    terminal.type("\x1b[200~ three\nfour\x1b[201~")  # pasted text keeps its lines
    terminal.see("  four")
    terminal.type("\r")
    terminal.see("Yes.")
    terminal.wait_for_prompt()
    terminal.type("\x04")
    assert terminal.end() == 0
    assert list_said(provider) == ["user", "assistant", "user", "assistant", "user"]
    assert "one\\ntwo three\\nfour" in provider.requests[-1].raw.decode()
    assert stat.S_IMODE((folder / ".foreword" / "typed-full").stat().st_mode) == 0o600


def read_after(terminal, text: str) -> list[str]:
    """Read the lines below one."""
    lines = [line.strip() for line in terminal.screen.lines if line.strip()]
    return [line for line in lines[lines.index(text) + 1 :] if line != ">"]


def test_interrupts(chat, provider):
    """Ctrl-C stops an answer and not the chat, clears what was typed, and twice at an empty prompt it ends the chat."""
    provider.follow(Hangs(seconds=60, text="It was a dark and stormy night, and it never ended."), Says(text="Better."))
    terminal = chat()
    terminal.send("Tell me a story.")
    terminal.see("It was a dark")
    terminal.type("\x03")
    terminal.see("stopped")
    terminal.send("A shorter one.")
    terminal.see("Better.")
    assert list_said(provider) == ["user", "assistant", "user"]
    terminal.wait_for_prompt()
    terminal.type("half a thought")
    terminal.see("half a thought")
    terminal.raw = ""
    terminal.type("\x03")
    terminal.wait_for_prompt()
    assert "once more" not in terminal.screen.text
    terminal.raw = ""
    terminal.type("\x03")
    terminal.see("Ctrl-C once more, or Ctrl-D, ends the chat")
    terminal.wait_for_prompt()
    terminal.type("\x03")
    assert terminal.end() == 0


def test_it_goes_on(chat, once, provider):
    """A chat goes on with the last session, says so and shows its last exchange, until /new begins another."""
    provider.follow(Says(text="Noted."), Says(text="Seven."))
    once("Remember the number 7.")
    terminal = chat()
    terminal.see("going on with")
    terminal.see("(1 turn, the last on")
    terminal.wait_for_prompt()
    assert read_after(terminal, "> Remember the number 7.") == ["Noted."]
    terminal.send("Which number?")
    terminal.see("Seven.")
    assert list_said(provider) == ["user", "assistant", "user"]
    terminal.send("/new")
    terminal.see("begins; /help")
    terminal.send("Hello again.")
    terminal.wait(lambda: len(provider.requests) == 3)
    assert list_said(provider) == ["user"]


def test_left_behind(chat, provider):
    """A message whose chat was closed before its answer came is answered in the next chat, which says so."""
    provider.follow(Hangs(seconds=60, text="It was a dark and stormy night."))
    first = chat()
    first.send("Tell me a story.")
    first.see("It was a dark")
    first.process.kill()
    first.process.wait()
    gate = threading.Event()
    provider.choose = lambda _: Says(text="Once." if gate.wait(60) else "Never.")
    terminal = chat()
    terminal.see("(no turn yet); 1 message is still being answered")
    gate.set()
    terminal.see("> Tell me a story.")
    terminal.see("Once.")
    provider.choose = None
    terminal.send("Another one.")
    terminal.see("Yes.")
    assert terminal.screen.text.count("Once.") == 1


def test_letters(chat, once, folder):
    """What the agent sent by itself since somebody last spoke is shown when they look, and once."""
    assert once("Hello.").code == 0
    lane = Lane(agent="reid", user="alice", channel="terminal", room="", clearance=Trust.FULL)
    with closing(open_state(folder / ".foreword").connection) as state:
        tell_there(state, lane, "", "The cellar is **wet**.")
    terminal = chat()
    terminal.see("The cellar is wet.")
    terminal.wait_for_prompt()
    terminal.send("Thanks.")
    terminal.see("Yes.")
    assert terminal.screen.text.count("The cellar is wet.") == 1


def test_reload_and_memory(chat, provider, folder):
    """/reload says what changed or what is wrong, and /memory what is remembered, without a word to the model."""
    terminal = chat()
    terminal.send("/reload")
    terminal.see("nothing has changed")
    (folder / "SOUL.md").write_text("You are wild.\n", encoding="utf-8")
    terminal.send("/reload")
    terminal.see("changed: soul")
    config = (folder / "foreword.yaml").read_text(encoding="utf-8")
    (folder / "foreword.yaml").write_text(f"{config}nonsense: 1\n", encoding="utf-8")
    terminal.send("/reload")
    terminal.see("so the old configuration is used: foreword.yaml")
    terminal.send("/memory")
    terminal.see("private/NOTES.md")
    terminal.send("/memory secret")
    terminal.see("A secret.")
    assert provider.requests == []


def test_reload_of_the_document(chat, folder):
    """In OSA's dialect /reload names the document that changed, and the line of a broken one that is not in force."""
    config = (folder / "foreword.yaml").read_text(encoding="utf-8")
    (folder / "foreword.yaml").write_text(config.replace("reid: {", "reid: {blueprint: osa, "), encoding="utf-8")
    terminal = chat()
    terminal.wait_for_prompt()
    (folder / "SYSTEM.md").write_text("Work calmly.\n", encoding="utf-8")
    terminal.send("/reload")
    terminal.see("changed: soul, system")  # the document leaves out the legacy soul
    (folder / "SYSTEM.md").write_text("One.\nTwo {{ name.\n", encoding="utf-8")
    terminal.send("/reload")
    terminal.see("in line 2 (")
    assert "SYSTEM.md" in terminal.screen.text


def test_the_owner_is_told(chat, folder):
    """At the prompt the owner hears unasked of an edit that broke something; /reload names what needs a restart."""
    terminal = chat()
    terminal.see("/help lists")
    config = (folder / "foreword.yaml").read_text(encoding="utf-8")
    (folder / "foreword.yaml").write_text(f"{config}nonsense: 1\n", encoding="utf-8")
    terminal.see("is faulty: what was in force")
    (folder / "foreword.yaml").write_text(f"{config}events: {{otlp: 'http://127.0.0.1:9'}}\n", encoding="utf-8")
    terminal.send("/reload")
    terminal.see("needs a restart: events.otlp")


@pytest.mark.parametrize(("words", "level"), [((), "error"), (("--user", "bob"), "foreword: warning")])
def test_a_file_of_no_use_is_told_once(chat, folder, words, level):
    """A file of no use is told when the chat begins, whoever sits there, as far as they may see it, and once."""
    (folder / "SOUL.md").write_bytes(b"\x00\xff\xfe" * 100)
    (folder / "USER.md").write_bytes(b"\x00\xff\xfe" * 100)
    terminal = chat(*words)
    terminal.see(f"{level}: SOUL.md has a NUL byte")
    terminal.send("What is on?")
    terminal.see("Yes.")
    terminal.wait_for_prompt()
    counts = [terminal.screen.text.count(f"{name}.md has a NUL byte") for name in ("SOUL", "USER")]
    assert counts == ([1, 0] if words else [1, 1])


def test_a_model_that_cannot_answer(chat, folder):
    """That nobody knows the provider of an agent is told before anything is said."""
    config = (folder / "foreword.yaml").read_text(encoding="utf-8")
    (folder / "foreword.yaml").write_text(config.replace("anthropic:", "antropic:"), encoding="utf-8")
    terminal = chat()
    terminal.see("antropic:claude-sonnet-5 cannot answer: unknown provider 'antropic'")
    terminal.wait_for_prompt()


def test_nobody_else_is_told(chat, folder):
    """Where somebody else sits at the terminal, a broken edit is not told, and /reload does not say what is wrong."""
    terminal = chat("--user", "bob")
    terminal.see("/help lists")
    config = (folder / "foreword.yaml").read_text(encoding="utf-8")
    (folder / "foreword.yaml").write_text(f"{config}nonsense: 1\n", encoding="utf-8")
    terminal.send("/reload")
    terminal.see("so the old configuration is used")
    assert "nonsense" not in terminal.screen.text
    assert "faulty" not in terminal.screen.text


def test_commands_are_not_said(chat, provider):
    """A mistyped command is answered with the nearest one, and nothing of it is said to the agent."""
    evil = "\x1b]0;owned\x07\x1b[2J\x9b2J [bold]x[/bold] \u202egpj"
    provider.follow(Says(text=evil, calls=(Called(name="no\x1b[2Jsuch", arguments={}),)), Says(text="Done."))
    terminal = chat()
    terminal.send("/contxt")
    terminal.see("did you mean /context?")
    terminal.send("/help")
    terminal.see("/context [last]")
    assert provider.requests == []
    terminal.send("//help")  # a message that begins with a slash
    terminal.see("Done.")
    assert "/help" in provider.requests[0].raw.decode()
    check_harmless(terminal)
    terminal.send("/quit")
    assert terminal.end() == 0


def check_harmless(terminal) -> None:
    """Words of a model and names of tools steer nothing: no escape sequence of theirs reaches the terminal."""
    assert "]0;owned" in terminal.screen.text
    assert "[bold]x[/bold]" in terminal.screen.text
    for order in ("\x1b]0;", "\x1b[2J", "\x9b", "\u202e"):
        assert order not in terminal.raw


WRITE = Called(name="write_file", arguments={"path": "notes/tea.md", "text": "Green.\n"})


def test_asking(chat, provider, folder):
    """What changes something is asked about first; only a yes allows it."""
    (folder / "notes").mkdir()
    text = (folder / "foreword.yaml").read_text(encoding="utf-8")
    text = text.replace('claude-sonnet-5"', 'claude-sonnet-5", directories: [notes]')
    (folder / "foreword.yaml").write_text(text, encoding="utf-8")
    provider.follow(Says(calls=(WRITE,)), Says(text="I could not."), Says(calls=(WRITE,)), Says(text="I did."))
    terminal = chat()
    terminal.send("Note the tea.")
    terminal.see("May this be done? [y/N]")
    assert "Green." in terminal.screen.text
    terminal.type("\r")
    terminal.see("I could not.")
    assert not (folder / "notes" / "tea.md").exists()
    terminal.send("Do it.")
    terminal.wait(lambda: terminal.screen.text.count("May this be done? [y/N]") == 2)
    terminal.type("y\r")
    terminal.see("I did.")
    assert (folder / "notes" / "tea.md").read_text(encoding="utf-8") == "Green.\n"
