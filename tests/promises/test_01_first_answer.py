"""The first answer of the embedded model: a small prompt, quotes, no loops, and the way to a larger model."""

import asyncio
import json
import re
import time

import pytest
from bench.first_answer import QUESTIONS
from chat_house import CONFIG, FILES, make_shell, open_house, sit_at_chat
from small_model import LLAMA_CPP, LM_STUDIO, NOBODY, OLLAMA, copy_sample, dribble, forget_keys, serve_json

import foreword
from foreword.agent.providers.embedded_engine import end_repetition
from foreword.gateway.messages import RoutedMessage
from foreword.testing import ScriptedReply, run_fake_provider
from foreword.turn import Turn
from foreword.types import Trust

SMALL = "local:smollm2"
BIRTHDAY = "When is Noé's birthday?"


def ask(folder, message, **place):
    """Assemble the prompt of a question to the embedded model, by default from the owner."""
    turn = Turn(**{"user": "alice", "situation": "dm", "channel": "terminal", "model": SMALL, **place}, message=message)
    with foreword.open(str(folder)) as workspace:
        return workspace.assemble(turn)


def test_prompt_is_made_for_it(tmp_path):
    """The embedded model's prompt has two lines of identity, the user's profile, the passages, and how to answer."""
    assembly = ask(copy_sample(tmp_path / "ws"), BIRTHDAY)
    text = assembly.prompt.text
    assert text.startswith("You are Reid, a helpful assistant.")
    assert text.index("\n\n") < 200
    assert "You speak with Alice." in text
    assert "Doesn't eat shellfish." in text
    assert "Notes:\n- Every year: 2 June: Noé's birthday." in text
    assert "Answer in one short sentence from the notes." in text
    assert not assembly.turn.tools
    assert assembly.used < 1_228


def test_twenty_questions(tmp_path):
    """Of 20 questions about the sample's files, the quotes answer at least 18."""
    folder = copy_sample(tmp_path / "ws")
    with foreword.open(str(folder)) as workspace:
        turns = [Turn(user="alice", situation="dm", model=SMALL, message=question) for question, _ in QUESTIONS]
        quoted = [" ".join(one.text for one in workspace.assemble(turn).passages) for turn in turns]
    assert sum(answer in text for text, (_, answer) in zip(quoted, QUESTIONS, strict=True)) >= 18


def test_quotes_name_their_lines(tmp_path):
    """A quote names the file and the line in which an editor finds it."""
    folder = copy_sample(tmp_path / "ws")
    with foreword.open(str(folder)) as workspace:
        for question, _ in QUESTIONS:
            turn = Turn(user="alice", situation="dm", model=SMALL, message=question)
            for one in workspace.assemble(turn).passages:
                line = (folder / one.file).read_text(encoding="utf-8").splitlines()[one.line - 1]
                assert one.text[:20] in line


def test_recall_can_be_turned_off(tmp_path):
    """`memory.recall: false` also turns the passages off for the embedded model."""
    folder = copy_sample(tmp_path / "ws")
    with (folder / "foreword.yaml").open("a", encoding="utf-8") as file:
        file.write("\nmemory: {recall: false}\n")
    assert ask(folder, BIRTHDAY).passages == ()


@pytest.mark.parametrize("place", [{"user": "bob"}, {"user": "alice", "situation": "group", "room": "family"}, {}])
def test_nothing_above_the_clearance(tmp_path, place):
    """Deleting every text above the clearance changes no byte of the prompt, and so no passage and no order."""
    place = place or {"user": "nobody"}
    whole, rest = copy_sample(tmp_path / "whole"), copy_sample(tmp_path / "rest")
    hidden = ["CALENDAR.md", "USER.md", "MEMORY.md", "BOOT.md", "users/carol/USER.md", "memory/shared/HOUSE.md"]
    hidden += [f"memory/private/{name}.md" for name in ("FINANCE", "GIFTS", "HEALTH")]
    for path in hidden:
        (rest / path).unlink()
    for question, _ in QUESTIONS:
        one, two = ask(whole, question, **place), ask(rest, question, **place)
        assert one.clearance.level <= Trust.FAMILIAR
        assert one.prompt.text.partition("Notes:")[2] == two.prompt.text.partition("Notes:")[2]
        assert not {passage.file for passage in one.passages} & set(hidden)


def test_own_files_are_for_their_person(tmp_path):
    """A user's private file is found for that user only, and in no room."""
    folder = copy_sample(tmp_path / "ws")
    question = "Who answers with a thumb?"
    found = {"users/bob/USER.md"}
    (folder / "foreword.yaml").write_text(
        (folder / "foreword.yaml").read_text(encoding="utf-8").replace("bob: {trust: familiar", "bob: {trust: inner"),
        encoding="utf-8",
    )
    assert {one.file for one in ask(folder, question, user="bob").passages} == found
    for other in ({"user": "carol"}, {"user": "alice"}, {"user": "bob", "situation": "group", "room": "family"}):
        assert not {one.file for one in ask(folder, question, **other).passages} & found


def test_chat_shows_the_quotes(tmp_path, capsys, monkeypatch):
    """The chat shows the passages as quotes with file and line; they go to stderr, and the answer to stdout."""
    forget_keys(monkeypatch)
    with run_fake_provider(ScriptedReply(text="In June.")) as provider:
        folder = copy_sample(tmp_path / "ws", "mine:small", "mode: brief", provider.url)
        answer = make_shell(capsys, monkeypatch, folder)("chat", BIRTHDAY)
    assert (answer.code, answer.out) == (0, "In June.\n")
    assert "> Every year: 2 June: Noé's birthday.\n  CALENDAR.md, line 19\n" in answer.err


def test_json_has_the_quotes(tmp_path, capsys, monkeypatch):
    """`chat --json` has the displayed passages, each with its file, its line and its text."""
    forget_keys(monkeypatch)
    with run_fake_provider(ScriptedReply(text="In June.")) as provider:
        folder = copy_sample(tmp_path / "ws", "mine:small", "mode: brief", provider.url)
        answer = make_shell(capsys, monkeypatch, folder)("chat", "--json", BIRTHDAY)
    reply = json.loads(answer.out)
    quoted = {(one["file"], one["line"]): (one["heading"], one["text"], one["origin"]) for one in reply["passages"]}
    assert quoted["CALENDAR.md", 19] == ("Every year", "- 2 June: Noé's birthday.", "")
    assert reply["text"] == "In June."
    assert "CALENDAR.md" not in answer.err


def test_the_terminal_draws_the_quotes(tmp_path):
    """In a terminal the quotes are drawn above the answer, each with its file and line below it."""
    with run_fake_provider(ScriptedReply(text="In **June**.")) as provider:
        folder = copy_sample(tmp_path / "ws", "mine:small", "mode: brief", provider.url)
        with sit_at_chat(folder, {}) as terminal:
            terminal.send(BIRTHDAY)
            terminal.see("In June.")
            terminal.wait_for_prompt()
    lines = [line.strip() for line in terminal.screen.text.splitlines()]
    at = lines.index("> Every year: 2 June: Noé's birthday.")
    assert lines[at + 1] == "CALENDAR.md, line 19"
    assert lines.count("> Every year: 2 June: Noé's birthday.") == 1
    assert at < lines.index("In June.")


def test_larger_models_get_no_quotes(tmp_path, capsys, monkeypatch):
    """A model with a full prompt gets no quotes."""
    with run_fake_provider(ScriptedReply(text="In June."), ScriptedReply(text="In June.")) as provider:
        folder = copy_sample(tmp_path / "ws", "mine:large", "window: 128000", provider.url)
        shell = make_shell(capsys, monkeypatch, folder)
        answer, values = shell("chat", BIRTHDAY), shell("chat", "--json", BIRTHDAY)
    assert (answer.out, answer.err) == ("In June.\n", "")
    assert json.loads(values.out)["passages"] == []


@pytest.mark.parametrize(("facts", "most"), [("mode: brief, answer: 77", 77), ("mode: brief, answer: 300", 300)])
def test_length_is_configurable(tmp_path, capsys, monkeypatch, facts, most):
    """`models.NAME.answer` bounds the answer of a model."""
    with run_fake_provider(ScriptedReply(text="Yes.")) as provider:
        folder = copy_sample(tmp_path / "ws", "mine:small", facts, provider.url)
        make_shell(capsys, monkeypatch, folder)("chat", "Hello, what is new?")
        assert provider.requests[0].body["max_tokens"] == most


def test_length_by_default(tmp_path):
    """The embedded model answers in 200 tokens at most unless configured otherwise."""
    assert ask(copy_sample(tmp_path / "ws"), BIRTHDAY).meter.facts.answer == 200


def stream(tokens):
    """Send tokens as the engine streams them, then the end of a reply that reached its limit."""
    for number, token in enumerate(tokens, 1):
        timings = {"cache_n": 5, "prompt_n": 7, "predicted_n": number}
        yield {"choices": [{"index": 0, "delta": {"content": token}}], "timings": timings}
    yield {"choices": [{"index": 0, "finish_reason": "length", "delta": {}}]}
    yield {"choices": [], "usage": {"prompt_tokens": 12, "completion_tokens": len(tokens)}}


async def pass_through(tokens):
    """Pass a reply through the repetition filter, in chunks with arbitrary boundaries."""

    async def send():
        raw = b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in stream(tokens))
        for at in range(0, len(raw), 100):
            yield raw[at : at + 100]

    raw = b"".join([piece async for piece in end_repetition(send(), 10)])
    chunks = [json.loads(event[6:]) for event in raw.split(b"\n\n") if event.startswith(b"data: {")]
    choices = [choice for chunk in chunks for choice in chunk["choices"]]
    said = "".join(choice["delta"].get("content", "") for choice in choices)
    return said, [choice.get("finish_reason") for choice in choices][-1], chunks[-1]["usage"]


def test_loops_end():
    """A reply ends where it starts to repeat ten of its tokens, and its usage is still known."""
    sentence = ["My", "name", "is", "Samantha", "and", "I", "am", "happy", "to", "help", "you", "today", ".", ""]
    said, reason, usage = asyncio.run(pass_through([f"{word} " for word in sentence] * 9))
    assert said.count("Samantha") == 1
    assert reason == "stop"
    assert usage["prompt_tokens"] == 12
    assert usage["completion_tokens"] < 2 * len(sentence)


def test_other_replies_stay_whole():
    """A reply that repeats single words, but no ten tokens, is passed on whole."""
    words = "on Monday the cat and on Tuesday the cat and the dog and on Monday the end"
    assert asyncio.run(pass_through(re.findall(r"\w+ ?", words)))[:2] == (words, "length")


def test_honest_line(tmp_path, capsys, monkeypatch):
    """One line says that a 135M model would answer and how to get a larger one, with the servers of this machine."""
    pytest.importorskip("xllamacpp")
    folder = copy_sample(tmp_path / "ws")
    shell = make_shell(capsys, monkeypatch, folder)
    with serve_json(OLLAMA) as ollama, serve_json(LM_STUDIO) as studio, serve_json(LLAMA_CPP) as llama:
        forget_keys(monkeypatch, ollama=ollama, lmstudio=studio, llamacpp=llama)
        monkeypatch.delenv("OPENAI_BASE_URL")
        monkeypatch.setenv("FOREWORD_CACHE", str(tmp_path / "nothing"))
        weigh_nothing(tmp_path / "nothing")
        first = shell("chat", "Hello there, how is the garden?").err.splitlines()[0]
    assert "no key is set for anthropic, so a 135M model answers" in first
    assert "set ANTHROPIC_API_KEY" in first
    assert "--model ollama:llama3.2:3b (Ollama runs on this machine)" in first
    assert "--model lmstudio:gemma-3-4b (LM Studio runs on this machine)" in first
    assert "--model llamacpp:mistral.gguf (llama.cpp runs on this machine)" in first


def test_a_terminal_is_greeted_with_the_honest_line(tmp_path):
    """The first line of a chat at a terminal says that a 135M model answers, and offers a local server by name."""
    pytest.importorskip("xllamacpp")
    folder = copy_sample(tmp_path / "ws")
    weigh_nothing(tmp_path / "nothing")
    with serve_json(OLLAMA) as ollama:
        environ = {"FOREWORD_CACHE": str(tmp_path / "nothing"), "OLLAMA_BASE_URL": ollama}
        with sit_at_chat(folder, {**environ, "LMSTUDIO_BASE_URL": NOBODY, "LLAMACPP_BASE_URL": NOBODY}) as terminal:
            terminal.see("new conversation; /help lists")
            terminal.wait_for_prompt()
    first, _, rest = "".join(terminal.screen.lines).partition("reid · local:smollm2 · clearance full")
    assert first == (
        "no key is set for anthropic, so a 135M model answers: trust the quotes from your files more than its words. "
        "For a real one: set ANTHROPIC_API_KEY, or type /model ollama:llama3.2:3b (Ollama runs on this machine)"
    )
    assert "135M" not in rest


def weigh_nothing(folder):
    """Install an empty weights file for the embedded model, so that nothing is downloaded or computed."""
    from foreword.agent.providers.embedded_weights import find_weights

    weights = find_weights("smollm2")
    folder.mkdir()
    with (folder / f"{weights.sha256[:16]}-{weights.file.rpartition('/')[2]}").open("wb") as file:
        file.truncate(weights.size)


def test_doctor_and_init_name_the_servers(tmp_path, capsys, monkeypatch):
    """`doctor` and `init` name the model servers of this machine, their models and their windows."""
    folder = copy_sample(tmp_path / "ws")
    shell = make_shell(capsys, monkeypatch, folder)
    with serve_json(OLLAMA) as ollama, serve_json(LM_STUDIO) as studio, serve_json(LLAMA_CPP) as llama:
        forget_keys(monkeypatch, ollama=ollama, lmstudio=studio, llamacpp=llama)
        doctor, init = shell("doctor").out, shell("init", tmp_path / "new").out
    assert f"Ollama at {ollama}: ollama:llama3.2:3b, ollama:qwen3:8b (window 32,768)" in doctor
    assert f"LM Studio at {studio}: lmstudio:gemma-3-4b (window 8,192);" in doctor
    assert f"llama.cpp at {llama}: llamacpp:mistral.gguf (window 16,384)" in doctor
    assert f"Ollama at {ollama}: ollama:llama3.2:3b, ollama:qwen3:8b" in init


def test_other_servers_are_left_alone(tmp_path, capsys, monkeypatch):
    """Another program on the port is not taken for a model server, and no other machine is contacted."""
    shell = make_shell(capsys, monkeypatch, copy_sample(tmp_path / "ws"))
    with serve_json({"/v1/models": {"data": [{"id": "x", "owned_by": "somebody"}]}}) as other:
        forget_keys(monkeypatch, llamacpp=other, ollama="http://192.0.2.1:11434/v1")
        assert "model server" not in shell("doctor").out


@pytest.mark.parametrize("where", ["headers", "body"])
def test_a_server_that_never_ends_is_not_waited_for(tmp_path, capsys, monkeypatch, where):
    """A program that sends a byte now and then on the port of a model server does not block the command."""
    shell = make_shell(capsys, monkeypatch, copy_sample(tmp_path / "ws", model="llamacpp:mistral.gguf"))
    with dribble(where) as slow, serve_json(OLLAMA) as ollama:
        forget_keys(monkeypatch, llamacpp=slow, ollama=ollama)
        for command in (("doctor",), ("build", "--message", "Hello")):
            began = time.monotonic()
            out = shell(*command).out
            assert time.monotonic() - began < 8
            assert "llama.cpp at" not in out
            if command == ("doctor",):
                assert f"Ollama at {ollama}" in out


def test_explain_counts_what_the_brief_prompt_leaves_out(tmp_path, capsys, monkeypatch):
    """`explain` has one line for all absent slots, also for those of the prompt mode; `--json` has each of them."""
    shell = make_shell(capsys, monkeypatch, copy_sample(tmp_path / "ws"))
    shown, values = shell("explain", "--model", SMALL), shell("explain", "--model", SMALL, "--json")
    assert "leaves it out" not in shown.out
    absent = int(re.search(r"^ (\d+) slots absent; --all shows them$", shown.out, re.MULTILINE)[1])
    assert absent == values.out.count('"verdict": "absent"') >= values.out.count("prompt mode brief leaves it out") > 5


@pytest.mark.parametrize("history", [False, True])
def test_earlier_messages_are_sent_by_choice(tmp_path, history):
    """A model with `history: false` gets each message alone; the conversation is stored whole."""
    settings = f"models: {{'anthropic:claude-sonnet-5': {{history: {str(history).lower()}}}}}\n"
    files = {**FILES, "foreword.yaml": CONFIG + settings}

    async def run(url):
        async with open_house(tmp_path, url, files) as gateway:
            for text in ("First.", "Second."):
                accepted = await gateway.accept(RoutedMessage(text=text, user="alice", agent="reid"))
                await gateway.wait(accepted.turn)
            return await gateway.sessions.read(accepted.session)

    with run_fake_provider(ScriptedReply(text="One."), ScriptedReply(text="Two.")) as provider:
        said = asyncio.run(run(provider.url))
    sent = provider.requests[-1].raw.decode()
    assert ("First." in sent, "One." in sent) == (history, history)
    assert "Second." in sent
    stored = [one.text.rpartition("\n")[2] for row in said for one in row.segment.texts]
    assert stored == ["First.", "One.", "Second.", "Two."]
