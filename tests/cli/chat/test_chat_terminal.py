"""`foreword chat` in a terminal: the real program in a pseudo-terminal, with a provider on loopback."""

import stat
import threading
from contextlib import closing

import pytest

from foreword.gateway.notifications import add_to_current_conversations
from foreword.storage.database import open_state
from foreword.storage.sessions import SessionKey
from foreword.testing import ScriptedCall, ScriptedHang, ScriptedReply
from foreword.types import Trust


def list_said(provider, number=-1) -> list[str]:
    """List the roles of a request."""
    return [message["role"] for message in provider.requests[number].body["messages"]]


def test_a_conversation(chat, provider, folder):
    """The chat shows its participants, Markdown answers and tool lines, and runs until Ctrl-D."""
    call = ScriptedCall(name="memory_search", arguments={"query": "choir"})
    provider.follow(
        ScriptedReply(text="# Today\n\nI **look**.", calls=(call,)), ScriptedReply(text="There is **choir**.")
    )
    terminal = chat()
    terminal.see("reid · anthropic:claude-sonnet-5 · clearance full, because alice is full and a dm allows full")
    terminal.see("new conversation; /help")
    terminal.send("What is on today?")
    terminal.see("There is choir.")
    assert read_after(terminal, "Today") == ["I look.", "· memory_search …", "There is choir."]
    terminal.wait_for_prompt()
    terminal.type("one\x1b\rtwo")  # Alt-Enter starts a new line
    terminal.see("  two")
    terminal.type("\x1b[200~ three\nfour\x1b[201~")  # pasted text preserves its lines
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
    """Return the lines below a given one."""
    lines = [line.strip() for line in terminal.screen.lines if line.strip()]
    return [line for line in lines[lines.index(text) + 1 :] if line != ">"]


def test_interrupts(chat, provider):
    """Ctrl-C stops an answer but not the chat, clears the input, and twice at an empty prompt ends the chat."""
    provider.follow(
        ScriptedHang(seconds=60, text="It was a dark and stormy night, and it never ended."),
        ScriptedReply(text="Better."),
    )
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
    assert "press Ctrl-C again" not in terminal.screen.text
    terminal.raw = ""
    terminal.type("\x03")
    terminal.see("press Ctrl-C again or Ctrl-D to end the chat")
    terminal.wait_for_prompt()
    terminal.type("\x03")
    assert terminal.end() == 0


def test_it_goes_on(chat, once, provider):
    """A chat resumes the last session, says so and shows its last exchange, until /new starts another."""
    provider.follow(ScriptedReply(text="Noted."), ScriptedReply(text="Seven."))
    once("Remember the number 7.")
    terminal = chat()
    terminal.see("resuming")
    terminal.see("(1 turn, last used")
    terminal.wait_for_prompt()
    assert read_after(terminal, "> Remember the number 7.") == ["Noted."]
    terminal.send("Which number?")
    terminal.see("Seven.")
    assert list_said(provider) == ["user", "assistant", "user"]
    terminal.send("/new")
    terminal.see("started; /help")
    terminal.send("Hello again.")
    terminal.wait(lambda: len(provider.requests) == 3)
    assert list_said(provider) == ["user"]


def test_left_behind(chat, provider):
    """A message whose chat was closed before the answer is answered in the next chat, which says so."""
    provider.follow(ScriptedHang(seconds=60, text="It was a dark and stormy night."))
    first = chat()
    first.send("Tell me a story.")
    first.see("It was a dark")
    first.process.kill()
    first.process.wait()
    gate = threading.Event()
    provider.choose = lambda _: ScriptedReply(text="Once." if gate.wait(60) else "Never.")
    terminal = chat()
    terminal.see("(no turns yet); 1 message is still being answered")
    gate.set()
    terminal.see("> Tell me a story.")
    terminal.see("Once.")
    provider.choose = None
    terminal.send("Another one.")
    terminal.see("Yes.")
    assert terminal.screen.text.count("Once.") == 1


def test_letters(chat, once, folder):
    """Messages that the agent sent since the last visit are shown once."""
    assert once("Hello.").code == 0
    key = SessionKey(agent="reid", user="alice", channel="terminal", room="", clearance=Trust.FULL)
    with closing(open_state(folder / ".foreword").connection) as state:
        add_to_current_conversations(state, key, "", "The cellar is **wet**.")
    terminal = chat()
    terminal.see("The cellar is wet.")
    terminal.wait_for_prompt()
    terminal.send("Thanks.")
    terminal.see("Yes.")
    assert terminal.screen.text.count("The cellar is wet.") == 1


def test_reload_and_memory(chat, provider, folder):
    """/reload shows changes or errors, and /memory shows memories, without a request to the model."""
    terminal = chat()
    terminal.send("/reload")
    terminal.see("no changes")
    (folder / "SOUL.md").write_text("You are wild.\n", encoding="utf-8")
    terminal.send("/reload")
    terminal.see("changed: soul")
    config = (folder / "foreword.yaml").read_text(encoding="utf-8")
    (folder / "foreword.yaml").write_text(f"{config}nonsense: 1\n", encoding="utf-8")
    terminal.send("/reload")
    terminal.see("the previous configuration is used: foreword.yaml")
    terminal.send("/memory")
    terminal.see("private/NOTES.md")
    terminal.send("/memory secret")
    terminal.see("A secret.")
    assert provider.requests == []


def test_reload_of_the_document(chat, folder):
    """In OSA's dialect /reload names the changed document, and the line of a broken one that is not used."""
    config = (folder / "foreword.yaml").read_text(encoding="utf-8")
    (folder / "foreword.yaml").write_text(config.replace("reid: {", "reid: {blueprint: osa, "), encoding="utf-8")
    terminal = chat()
    terminal.wait_for_prompt()
    (folder / "SYSTEM.md").write_text("Work calmly.\n", encoding="utf-8")
    terminal.send("/reload")
    terminal.see("changed: soul, system")  # the document excludes the legacy soul
    (folder / "SYSTEM.md").write_text("One.\nTwo {{ name.\n", encoding="utf-8")
    terminal.send("/reload")
    terminal.see("in line 2 (")
    assert "SYSTEM.md" in terminal.screen.text


def test_the_owner_is_told(chat, folder):
    """The owner is notified of a broken edit at the prompt; /reload names settings that need a restart."""
    terminal = chat()
    terminal.see("/help lists")
    config = (folder / "foreword.yaml").read_text(encoding="utf-8")
    (folder / "foreword.yaml").write_text(f"{config}nonsense: 1\n", encoding="utf-8")
    terminal.see("is faulty: the previous version")
    (folder / "foreword.yaml").write_text(f"{config}events: {{otlp: 'http://127.0.0.1:9'}}\n", encoding="utf-8")
    terminal.send("/reload")
    terminal.see("needs a restart: events.otlp")


@pytest.mark.parametrize(("words", "level"), [((), "error"), (("--user", "bob"), "foreword: warning")])
def test_a_file_of_no_use_is_told_once(chat, folder, words, level):
    """An unusable file is reported once at the start, to every user who may see it."""
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
    """An unknown provider of the agent is reported at the start."""
    config = (folder / "foreword.yaml").read_text(encoding="utf-8")
    (folder / "foreword.yaml").write_text(config.replace("anthropic:", "antropic:"), encoding="utf-8")
    terminal = chat()
    terminal.see("antropic:claude-sonnet-5 cannot answer: unknown provider 'antropic'")
    terminal.wait_for_prompt()


def test_nobody_else_is_told(chat, folder):
    """Other users are not notified of a broken edit, and /reload does not show them the error."""
    terminal = chat("--user", "bob")
    terminal.see("/help lists")
    config = (folder / "foreword.yaml").read_text(encoding="utf-8")
    (folder / "foreword.yaml").write_text(f"{config}nonsense: 1\n", encoding="utf-8")
    terminal.send("/reload")
    terminal.see("the previous configuration is used")
    assert "nonsense" not in terminal.screen.text
    assert "faulty" not in terminal.screen.text


def test_commands_are_not_said(chat, provider):
    """A mistyped command is answered with the nearest one and not sent to the agent."""
    evil = "\x1b]0;owned\x07\x1b[2J\x9b2J [bold]x[/bold] \u202egpj"
    provider.follow(
        ScriptedReply(text=evil, calls=(ScriptedCall(name="no\x1b[2Jsuch", arguments={}),)), ScriptedReply(text="Done.")
    )
    terminal = chat()
    terminal.send("/contxt")
    terminal.see("did you mean /context?")
    terminal.send("/help")
    terminal.see("/context [all|last]")
    assert provider.requests == []
    terminal.send("//help")  # a message that starts with a slash
    terminal.see("Done.")
    assert "/help" in provider.requests[0].raw.decode()
    check_harmless(terminal)
    terminal.send("/quit")
    assert terminal.end() == 0


def check_harmless(terminal) -> None:
    """Check that no escape sequence of model text or tool names reaches the terminal."""
    assert "]0;owned" in terminal.screen.text
    assert "[bold]x[/bold]" in terminal.screen.text
    for order in ("\x1b]0;", "\x1b[2J", "\x9b", "\u202e"):
        assert order not in terminal.raw


WRITE = ScriptedCall(name="write_file", arguments={"path": "notes/tea.md", "text": "Green.\n"})


def test_asking(chat, provider, folder):
    """A call with side effects asks first, and only a yes allows it."""
    (folder / "notes").mkdir()
    text = (folder / "foreword.yaml").read_text(encoding="utf-8")
    text = text.replace('claude-sonnet-5"', 'claude-sonnet-5", directories: [notes]')
    (folder / "foreword.yaml").write_text(text, encoding="utf-8")
    provider.follow(
        ScriptedReply(calls=(WRITE,)),
        ScriptedReply(text="I could not."),
        ScriptedReply(calls=(WRITE,)),
        ScriptedReply(text="I did."),
    )
    terminal = chat()
    terminal.send("Note the tea.")
    terminal.see("Allow this? [y/N]")
    assert "Green." in terminal.screen.text
    terminal.type("\r")
    terminal.see("I could not.")
    assert not (folder / "notes" / "tea.md").exists()
    terminal.send("Do it.")
    terminal.wait(lambda: terminal.screen.text.count("Allow this? [y/N]") == 2)
    terminal.type("y\r")
    terminal.see("I did.")
    assert (folder / "notes" / "tea.md").read_text(encoding="utf-8") == "Green.\n"
