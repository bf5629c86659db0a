"""`explain` and `build` show what `chat` would send: the model that would answer here, in its mode."""

import json
import sys

import pytest
from chat_house import make_shell
from small_model import LLAMA_CPP, OLLAMA, copy_sample, forget_keys, serve_json

from foreword.gateway.messages import RoutedMessage, dump_message, load_message
from foreword.testing import ScriptedReply, run_fake_provider
from foreword.types import Mode

QUESTION = "When is Noé's birthday?"


@pytest.fixture
def shell(tmp_path, capsys, monkeypatch):
    """Run commands in a copy of the sample, without any key and without any model server."""
    run = make_shell(capsys, monkeypatch, copy_sample(tmp_path / "ws"))
    forget_keys(monkeypatch)
    return run


def read_mode(shown):
    """Read the prompt mode that `explain` names in its last line; a full prompt has none."""
    parts = " ".join(shown.out.split()).split(" · ")
    return next((part.split()[-1] for part in parts if part.startswith("prompt mode")), "full")


def test_without_a_key(shell):
    """Without a key, `explain` and `build` show the prompt of the embedded model, and one line says why."""
    pytest.importorskip("xllamacpp")
    shown = shell("explain", "--message", QUESTION)
    assert read_mode(shown) == "brief"
    assert "no key is set for anthropic; answering with the embedded local:smollm2" in shown.err
    built = shell("build", "--message", QUESTION)
    assert "2 June: Noé's birthday." in built.out
    assert "for the prompt of another model, add --model NAME" in built.err
    assert json.loads(shell("build", "--json").out)["model"] == "local:smollm2"


def test_a_named_model_is_shown(shell, monkeypatch):
    """A named model, or a model with a key, is shown without a note about another one."""
    named = shell("explain", "--model", "anthropic:claude-sonnet-5")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    keyed = shell("explain")
    assert named.out == keyed.out
    assert (named.err, keyed.err) == ("", "")
    assert read_mode(keyed) == "full"


def test_where_no_model_would_answer(shell, monkeypatch):
    """If no model would answer, the configured one is shown, and one line says so."""
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    shown = shell("explain")
    assert "no model can answer here" in shown.err
    assert "this is the prompt for anthropic:claude-sonnet-5" in shown.err
    assert read_mode(shown) == "full"


def test_build_is_what_chat_sends(tmp_path, capsys, monkeypatch):
    """`build --format openai` has the same system message and the same recalled passages as `chat`."""
    with run_fake_provider(ScriptedReply(text="In June.")) as provider:
        folder = copy_sample(tmp_path / "ws", "mine:small", "mode: brief", provider.url)
        shell = make_shell(capsys, monkeypatch, folder)
        shell("chat", QUESTION)
        sent = provider.requests[0].body["messages"]
        built = json.loads(shell("build", "--message", QUESTION, "--format", "openai").out)["messages"]
    assert built[0] == sent[0]
    notes = [json.dumps(one[-1], ensure_ascii=False).partition("Notes:")[2] for one in (built, sent)]
    assert notes[0].startswith("\\n- Every year: 2 June")
    assert notes[0].partition("Answer in")[0] == notes[1].partition("Answer in")[0]


def make_header(window):
    """Make the header of a GGUF file with a context window."""
    from struct import pack

    def text(value):
        return pack("<Q", len(value)) + value.encode()

    numbers = {"context_length": window, "block_count": 2, "embedding_length": 64, "attention.head_count": 4}
    values = [text("general.architecture") + pack("<I", 8) + text("llama")]
    values += [text(f"llama.{name}") + pack("<II", 4, number) for name, number in numbers.items()]
    return b"GGUF" + pack("<IQQ", 3, 0, len(values)) + b"".join(values)


@pytest.mark.parametrize(("window", "mode"), [(32_768, "full"), (12_000, "minimal"), (4_096, "brief")])
def test_own_file(shell, tmp_path, window, mode):
    """A user's GGUF file gets the prompt mode that its window allows."""
    (tmp_path / "own.gguf").write_bytes(make_header(window))
    assert read_mode(shell("explain", "--model", f"local:{tmp_path}/own.gguf")) == mode


@pytest.mark.parametrize(
    ("model", "mode", "window"),
    [
        ("ollama:qwen3:8b", "full", "window 32,768"),
        ("llamacpp:mistral.gguf", "full", "window 16,384"),
        ("ollama:llama3.2:3b", "brief", "window 4,096"),
    ],
)
def test_local_servers(shell, monkeypatch, model, mode, window):
    """A model on a local server gets the mode of the window that the server reports, else a small one is assumed."""
    with serve_json(OLLAMA) as ollama, serve_json(LLAMA_CPP) as llama:
        forget_keys(monkeypatch, ollama=ollama, llamacpp=llama)
        shown = shell("explain", "--model", model)
    assert (read_mode(shown), window in " ".join(shown.out.split())) == (mode, True)
    assert ("does not say the window" in shown.err) == (mode == "brief")


def test_configuration_chooses_the_mode(tmp_path, capsys, monkeypatch):
    """`models.NAME.mode` sets the prompt mode, whatever the window."""
    folder = copy_sample(tmp_path / "ws", "mine:x", "window: 128000, mode: minimal")
    assert read_mode(make_shell(capsys, monkeypatch, folder)("explain")) == "minimal"


def test_chat_chooses_the_mode(tmp_path, capsys, monkeypatch):
    """`chat --mode` sets the prompt mode of a conversation."""
    with run_fake_provider(ScriptedReply(text="In June."), ScriptedReply(text="In June.")) as provider:
        folder = copy_sample(tmp_path / "ws", "mine:x", "window: 128000", provider.url)
        shell = make_shell(capsys, monkeypatch, folder)
        shell("chat", "--new", QUESTION)
        shell("chat", "--new", "--mode", "brief", QUESTION)
        full, brief = (json.dumps(request.body["messages"], ensure_ascii=False) for request in provider.requests)
    assert "You answer questions from notes." in brief
    assert "You answer questions from notes." not in full
    assert len(brief) < len(full) / 4


def test_mode_is_kept_with_a_message():
    """A message in the inbox retains the mode that was chosen for it."""
    asked = RoutedMessage(text="Hello", mode=Mode.BRIEF)
    assert load_message("Hello", dump_message(asked)) == asked
    assert load_message("Hello", dump_message(RoutedMessage(text="Hello"))).mode is None


@pytest.mark.parametrize("blueprint", ["default", "moltis", "coop", "nova", "osa"])
@pytest.mark.parametrize("window", [8_192, 12_000, 20_000])
def test_schemas_need_no_tool(tmp_path, capsys, monkeypatch, blueprint, window):
    """No tool schema in the prompt has to be read with a tool, least of all with the tool itself."""
    folder = copy_sample(tmp_path / "ws", "mine:x", f"window: {window}, native_tools: false")
    text = make_shell(capsys, monkeypatch, folder)("build", "--blueprint", blueprint).out
    assert 'read_section("tool-schemas' not in text
    assert 'read_section("tool-calls' not in text
