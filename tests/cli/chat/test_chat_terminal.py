"""Claims about `foreword chat` at a terminal: the real program in a pseudo-terminal, against a provider on loopback."""

import json
import os
import stat

from foreword.testing import Called, Hangs, Refuses, Says


def list_said(provider, number=-1) -> list[str]:
    """List who said what in a request, by the first letters of each message."""
    return [message["role"] for message in provider.requests[number].body["messages"]]


def test_a_conversation(chat, provider, folder):
    """The chat says who is there, draws answers as Markdown, and goes on until Ctrl-D."""
    provider.follow(Says(text="# Today\\n\\nThere is **choir**.".replace("\\n", "\n")), Says(text="At eight."))
    terminal = chat()
    terminal.see("reid · anthropic:claude-sonnet-5 · clearance full, because alice is full and a dm allows full")
    terminal.see("a new conversation")
    terminal.send("What is on today?")
    terminal.see("There is choir.")
    terminal.send("When?")
    terminal.see("At eight.")
    terminal.wait_for_prompt()
    assert "**" not in terminal.screen.text
    assert terminal.screen.text.count("There is choir.") == 1
    terminal.type("\x04")
    assert terminal.end() == 0
    assert list_said(provider) == ["user", "assistant", "user"]
    kept = os.stat(folder / ".foreword" / "typed-full")
    assert stat.S_IMODE(kept.st_mode) == 0o600


def test_interrupt_stops_the_turn(chat, provider):
    """Ctrl-C stops the answer and not the chat: the words so far stand, and the session can be used."""
    provider.follow(Hangs(seconds=60, text="It was a dark and stormy night, and it never ended."), Says(text="Better."))
    terminal = chat()
    terminal.send("Tell me a story.")
    terminal.see("It was a dark")
    terminal.type("\x03")
    terminal.see("stopped")
    terminal.send("A shorter one.")
    terminal.see("Better.")
    assert list_said(provider) == ["user", "assistant", "user"]


def test_interrupt_at_the_prompt(chat):
    """Ctrl-C clears what was typed; at an empty prompt the second one ends the chat."""
    terminal = chat()
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


def test_several_lines(chat, provider):
    """Alt-Enter begins a new line, pasted text keeps its own, and Enter sends all of it as one message."""
    terminal = chat()
    terminal.wait_for_prompt()
    terminal.type("one\x1b\rtwo")
    terminal.see("  two")
    terminal.type("\x1b[200~ three\nfour\x1b[201~")
    terminal.see("  four")
    terminal.type("\r")
    terminal.see("Yes.")
    assert "one\ntwo three\nfour" in json.dumps(provider.body["messages"][-1]).replace("\\n", "\n")


def test_it_goes_on(chat, provider):
    """The next chat goes on with the last session and says so; /new begins anew, and /resume goes back."""
    first = chat()
    first.send("Remember the number 7.")
    first.see("Yes.")
    first.wait_for_prompt()
    first.type("\x04")
    assert first.end() == 0
    terminal = chat()
    terminal.see("going on with")
    terminal.see("(1 turn, the last on")
    terminal.send("Which number?")
    terminal.see("Yes.")
    assert list_said(provider) == ["user", "assistant", "user"]
    terminal.send("/new")
    terminal.see("begins; /help")
    terminal.send("Hello again.")
    terminal.wait(lambda: len(provider.requests) == 3)
    terminal.wait_for_prompt()
    assert list_said(provider) == ["user"]
    terminal.send("/sessions")
    terminal.see("this one")
    terminal.wait_for_prompt()
    listed = [line.split()[0] for line in terminal.screen.text.splitlines() if " 20" in line and line.startswith(" ")]
    assert len(listed) == 2
    terminal.send(f"/resume {listed[1]}")
    terminal.see("(2 turns")
    terminal.send("And now?")
    terminal.wait(lambda: len(provider.requests) == 4)
    assert list_said(provider) == ["user", "assistant"] * 2 + ["user"]


def test_looking(chat, provider, folder):
    """/context shows the turn, /why the reason of a slot and what the last turn did, /cost what it cost."""
    provider.follow(Refuses(status=400, message="no"), Says(text="Good."))
    terminal = chat()
    terminal.send("/why")
    terminal.see("nothing was said yet")
    terminal.send("Hello.")
    terminal.see("The model could not answer this (status 400)")
    terminal.send("/why")
    terminal.see("[provider] api_error")
    terminal.send("Hello.")
    terminal.see("Good.")
    terminal.send("/context")
    terminal.see("clearance: full, because alice is full")
    terminal.see("AGENTS.md")
    terminal.send("/why soul")
    terminal.see("soul: kept")
    terminal.send("/context last")
    terminal.see("prompt mode" if False else "window")
    terminal.send("/why sool")
    terminal.see("did you mean 'soul'?")
    terminal.send("/cost")
    terminal.see("this session: $0.0")
    assert len(provider.requests) == 2


def test_reload(chat, folder):
    """/reload says which slots changed, and what is wrong with a configuration that became invalid."""
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


def test_memory(chat, provider):
    """/memory lists what is remembered and searches in it, at the clearance of the conversation and without a model."""
    terminal = chat()
    terminal.send("/memory")
    terminal.see("private/NOTES.md")
    terminal.send("/memory secret")
    terminal.see("A secret.")
    low = chat("--situation", "group")
    low.see("clearance familiar")
    low.send("/memory secret")
    low.see("Nothing in memory answers that.")
    low.send("/context")
    low.see("system ")
    assert "NOTES" not in low.screen.text
    assert "withheld" not in low.screen.text
    assert provider.requests == []


def test_a_tool(chat, provider):
    """A tool is a quiet line between the words."""
    call = Called(name="memory_search", arguments={"query": "secret"})
    provider.follow(Says(text="I look.", calls=(call,)), Says(text="Found."))
    terminal = chat()
    terminal.send("What is the secret?")
    terminal.see("Found.")
    assert "· memory_search …" in terminal.screen.text


def test_hostile_words(chat, provider):
    """Words of a model and names of tools steer nothing: no escape sequence of theirs reaches the terminal."""
    evil = "\x1b]0;owned\x07\x1b[2J\x9b2J [bold]x[/bold] \u202egpj"
    provider.follow(Says(text=evil, calls=(Called(name="no\x1b[2Jsuch", arguments={}),)), Says(text="Done."))
    terminal = chat()
    terminal.send("Hello.")
    terminal.see("Done.")
    assert "]0;owned" in terminal.screen.text
    assert "[bold]x[/bold]" in terminal.screen.text
    assert "\x1b]0;" not in terminal.raw
    assert "\x1b[2J" not in terminal.raw
    assert "\x9b" not in terminal.raw
    assert "\u202e" not in terminal.raw


def test_commands_are_not_said(chat, provider):
    """A mistyped command is answered with the nearest one, and nothing of it is said to the agent."""
    terminal = chat()
    terminal.send("/contxt")
    terminal.see("did you mean '/context'?")
    terminal.send("/help")
    terminal.see("/context [last]")
    terminal.send("//help")
    terminal.see("Yes.")
    assert "/help" in json.dumps(provider.body["messages"][-1])
    assert len(provider.requests) == 1
    terminal.send("/quit")
    assert terminal.end() == 0


def test_model(chat, provider):
    """/model shows the model, and switches to another one for this session alone."""
    terminal = chat()
    terminal.send("/model")
    terminal.see("anthropic:claude-sonnet-5")
    terminal.send("/model anthropic:claude-haiku-4-5")
    terminal.send("Hello.")
    terminal.see("Yes.")
    assert provider.body["model"] == "claude-haiku-4-5"
    terminal.send("/model nonsense")
    terminal.see("names no model")
    terminal.send("/new")
    terminal.send("Hello.")
    terminal.wait(lambda: len(provider.requests) == 2)
    assert provider.body["model"] == "claude-sonnet-5"
