"""The sample with a very small model behind a fake provider, and fake model servers on loopback."""

import json
import shutil
import threading
import time
from contextlib import contextmanager
from pathlib import Path

from foreword.testing.fixtures import LoopbackHandler, LoopbackServer, serve_in_thread

EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "assistant"
NOBODY = "http://127.0.0.1:9/v1"  # a port without a listener


def copy_sample(folder, model="", facts="", url=NOBODY):
    """Copy the sample; a named model, served by a fake provider, replaces the model of its agent."""
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns(".foreword"))
    config = folder / "foreword.yaml"
    text = config.read_text(encoding="utf-8")
    if model:
        text = text.replace('"anthropic:claude-sonnet-5"', f'"{model}"')
        text += f'\nproviders: {{mine: {{base_url: "{url}/v1"}}}}\nmodels: {{"{model}": {{{facts}}}}}\n'
    config.write_text(text, encoding="utf-8")
    return folder


def forget_keys(monkeypatch, **addresses):
    """Remove all keys from the environment, and all model servers but the fake ones."""
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GOOGLE_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    for name in ("ollama", "lmstudio", "llamacpp"):
        monkeypatch.setenv(f"{name.upper()}_BASE_URL", addresses.get(name, NOBODY))


@contextmanager
def serve_json(pages):
    """Serve JSON documents by their paths on a free port, and yield the versioned address."""

    class Door(LoopbackHandler):
        def do_GET(self):  # noqa: N802 - the name that http.server calls
            found = pages.get(self.path)
            body = json.dumps(found).encode()
            self.send_response(200 if found is not None else 404)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    server = LoopbackServer(Door)
    with serve_in_thread(server, threading.Event()):
        yield f"{server.url}/v1"


@contextmanager
def dribble(where):
    """Serve a stream that sends a little every 0.2 s for 15 s, in its headers or in its body."""
    over = threading.Event()

    class Door(LoopbackHandler):
        def do_GET(self):  # noqa: N802 - the name that http.server calls
            self.wfile.write(b"HTTP/1.1 200 OK\r\n")
            if where == "body":
                self.wfile.write(b"content-type: text/event-stream\r\n\r\n")
            end = time.monotonic() + 15
            while time.monotonic() < end and not over.wait(0.2):
                try:
                    self.wfile.write(b": \n\n" if where == "body" else b"x-wait: 1\r\n")
                    self.wfile.flush()
                except OSError:
                    return

    server = LoopbackServer(Door)
    with serve_in_thread(server, threading.Event()):
        yield f"{server.url}/v1"
        over.set()


OLLAMA = {
    "/api/tags": {"models": [{"name": "llama3.2:3b"}, {"name": "qwen3:8b"}]},
    "/api/ps": {"models": [{"name": "qwen3:8b", "context_length": 32_768}]},
}
LM_STUDIO = {
    "/api/v0/models": {
        "data": [
            {"id": "gemma-3-4b", "type": "llm", "loaded_context_length": 8_192},
            {"id": "nomic-embed", "type": "embeddings"},
        ]
    }
}
LLAMA_CPP = {
    "/v1/models": {"data": [{"id": "mistral.gguf", "owned_by": "llamacpp"}]},
    "/props": {"default_generation_settings": {"n_ctx": 16_384}},
}
