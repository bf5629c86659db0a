"""Images in the messages of people: stored once, sent in the form of each provider, refused elsewhere, and erased."""

import json
import os
import struct
import zlib
from base64 import b64decode, b64encode
from hashlib import sha256
from pathlib import Path

import pytest
from openai import APIStatusError, BadRequestError
from served import FILES, serve_workspace

from foreword.cli.main import main
from foreword.testing import ScriptedCall, ScriptedError, ScriptedReply

AGENTS = {
    "reid": "anthropic:claude-sonnet-5",
    "ada": "openai:gpt-5",
    "rita": "openai-responses:gpt-5",
    "gwen": "google:gemini-3-pro",
    "otto": "openai:gpt-3.5-turbo",
}
CONFIG = f"""\
owner: alice
agents: {json.dumps({name: {"model": model} for name, model in AGENTS.items()})}
users:
  alice: {{trust: full}}
  bob: {{trust: familiar}}
  carol: {{trust: familiar}}
"""
SEVERAL = {**FILES, "foreword.yaml": CONFIG}
JPEG = b64decode(
    "/9j/4AAQSkZJRgABAQEASABIAAD/2wBDAP////////////////////////////////////////////////////////////////////////"
    "//////////////wgALCAABAAEBAREA/8QAFBABAAAAAAAAAAAAAAAAAAAAAP/aAAgBAQABPxA="
)
GIF = b64decode("R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7")
WEBP = b64decode("UklGRhoAAABXRUJQVlA4TA0AAAAvAAAAEAcQERGIiP4HAA==")


def make_png(width=2, height=2, colour=0):
    """Make a PNG of one grey."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = (b"\0" + bytes([colour]) * width) * height
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def show(content, label="image/png"):
    """Write an image as a part of a message."""
    return {"type": "image_url", "image_url": {"url": f"data:{label};base64,{b64encode(content).decode()}"}}


def look(*images, text="What is this?"):
    """Make a message with images."""
    return {"role": "user", "content": [{"type": "text", "text": text}, *images]}


def ask(served, *messages, agent="reid", user="alice", **options):
    """Send a conversation; return the completion."""
    with served.open_sdk(user) as client:
        return client.chat.completions.create(model=agent, messages=list(messages), **options)


def list_files(root):
    """List the names of the stored images."""
    folder = root / ".foreword" / "images"
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


def list_user_parts(request):
    """List the parts of all messages of the user in a request."""
    said = next(request.body[field] for field in ("messages", "input", "contents") if field in request.body)
    messages = [message for message in said if message.get("role") == "user"]
    return [part for message in messages for part in message.get("content") or message["parts"]]


@pytest.fixture(scope="module")
def several(tmp_path_factory):
    """A server whose agents use models of each provider API."""
    with serve_workspace(tmp_path_factory.mktemp("several"), files=SEVERAL) as one:
        yield one


def form(shape, media_type, content):
    """Return an image in the form of a provider."""
    data = b64encode(content).decode()
    return {
        "anthropic": {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data}},
        "openai": {"type": "image_url", "image_url": {"url": f"data:{media_type};base64,{data}"}},
        "responses": {"type": "input_image", "image_url": f"data:{media_type};base64,{data}"},
        "gemini": {"inlineData": {"mimeType": media_type, "data": data}},
    }[shape]


@pytest.mark.parametrize(
    ("agent", "shape"), [("reid", "anthropic"), ("ada", "openai"), ("rita", "responses"), ("gwen", "gemini")]
)
@pytest.mark.parametrize(
    ("media_type", "content"),
    [("image/png", make_png()), ("image/jpeg", JPEG), ("image/webp", WEBP)],
    ids=["png", "jpeg", "webp"],
)
def test_every_shape(several, agent, shape, media_type, content):
    """An image follows the text of its message in the form of the provider, and the type comes from its bytes."""
    several.provider.follow(ScriptedReply(text="A dot."), ScriptedReply(text="Grey."))
    question = look(show(content, "text/plain"))
    first = ask(several, question, agent=agent)
    request = several.provider.requests[-1]
    assert (request.shape, request.refused) == (shape, "")
    *texts, image = list_user_parts(request)
    image.pop("cache_control", None)
    image.pop("prompt_cache_breakpoint", None)
    assert image == form(shape, media_type, content)
    assert texts[-1]["text"] == "What is this?\n[image]"
    # The next message finds the session, whose history has the image.
    after = ask(several, question, {"role": "assistant", "content": "A dot."}, look(text="Which colour?"), agent=agent)
    assert after.foreword["session"] == first.foreword["session"]
    request = several.provider.requests[-1]
    assert request.refused == ""
    assert str(request.body).count(b64encode(content).decode()) == 1


def test_images_keep_their_order(several):
    """Several images of one message are sent in their order, and one that is sent twice is one file."""
    several.provider.follow(ScriptedReply(text="Dots."))
    images = [make_png(colour=colour) for colour in (9, 7, 9)]
    ask(several, look(*map(show, images)))
    sent = [part["source"]["data"] for part in list_user_parts(several.provider.requests[-1]) if "source" in part]
    assert sent == [b64encode(image).decode() for image in images]


@pytest.mark.parametrize(
    ("agent", "message", "problem"),
    [
        ("otto", look(show(make_png())), "gpt-3.5-turbo takes no images"),
        ("gwen", look(show(GIF)), "does not take images of the type image/gif"),
        ("reid", look({"type": "image_url", "image_url": {"url": "https://x.example/a.png"}}), "fetches nothing"),
        ("reid", look({"type": "image_url", "image_url": {"url": "data:image/png,abc"}}), "fetches nothing"),
        ("reid", look({"type": "image_url", "image_url": {"url": "data:image/png;base64,A?"}}), "not valid base64"),
        ("reid", look({"type": "image_url"}), "fetches nothing"),
        ("reid", look(show(b"<svg/>", "image/png")), "no PNG, JPEG, GIF or WebP"),
        ("reid", look(show(make_png()[:20])), "no PNG, JPEG, GIF or WebP"),
        ("reid", look(show(make_png() + bytes(5_000_000))), "at most 5,000,000"),
        ("reid", look(*[show(make_png())] * 9), "at most 8"),
        ("reid", {"role": "tool", "tool_call_id": "x", "content": [show(make_png())]}, "attachment"),
    ],
)
def test_refusals(several, agent, message, problem):
    """A wrong image, or a model that takes none, is 400 with the reason; no model is called and no file is stored."""
    root = Path(several.folder).parent
    asked, files = len(several.provider.requests), list_files(root)
    with pytest.raises(BadRequestError, match=problem) as refused:
        ask(several, message, agent=agent)
    assert refused.value.param.startswith("messages")
    assert len(several.provider.requests) == asked
    assert list_files(root) == files


def test_a_gif(several):
    """A GIF is sent to a provider that takes it."""
    several.provider.follow(ScriptedReply(text="A dot."))
    ask(several, look(show(GIF)), agent="ada")
    assert several.provider.requests[-1].refused == ""
    assert "data:image/gif" in str(several.provider.body)


def test_the_owner_knows_the_model_better(tmp_path):
    """`models.NAME.images` overrides what the table says, in both directions."""
    files = {**SEVERAL, "foreword.yaml": CONFIG + "models: {gpt-3.5-turbo: {images: true}, gpt-5: {images: false}}\n"}
    with serve_workspace(tmp_path, ScriptedReply(text="A dot."), files=files) as served:
        ask(served, look(show(make_png())), agent="otto")
        assert "data:image/png" in str(served.provider.body)
        with pytest.raises(BadRequestError, match="takes no images"):
            ask(served, look(show(make_png())), agent="ada")


def test_tools_and_errors(tmp_path):
    """An image is sent again after a tool call and after a transient error."""
    call = ScriptedCall(name="memory_list", arguments={})
    script = [ScriptedReply(calls=(call,)), ScriptedError(status=529, message="busy"), ScriptedReply(text="A dot.")]
    with serve_workspace(tmp_path, *script) as served:
        ask(served, look(show(make_png())))
        assert [request.refused for request in served.provider.requests] == ["", "", ""]
        assert all(str(request.body).count("base64") == 1 for request in served.provider.requests)


def test_a_refused_image_breaks_no_later_turn(tmp_path):
    """An image that the provider refuses fails its own turn; later turns have a note in its place."""
    refusal = ScriptedError(status=400, message="Could not process image")
    with serve_workspace(tmp_path, ScriptedReply(text="Hello."), refusal, ScriptedReply(text="Yes?")) as served:
        headers = {"X-Foreword-Session": ask(served, look(text="Hi")).foreword["session"]}
        with pytest.raises(APIStatusError, match="status 400"):
            ask(served, look(show(make_png())), extra_headers=headers)
        ask(served, look(text="Are you there?"), extra_headers=headers)
        assert "[image left out: its message was not answered]" in str(served.provider.body)
        assert "base64" not in str(served.provider.body)


def test_after_a_restart(tmp_path):
    """The history has only a reference; after a restart the file is read, and a missing one is a note."""
    image = make_png(colour=5)
    data, name = b64encode(image).decode(), sha256(image).hexdigest()
    root = tmp_path / "ws"
    with serve_workspace(root, ScriptedReply(text="A dot.")) as served:
        session = ask(served, look(show(image))).foreword["session"]
    assert list_files(root) == [name]
    assert (root / ".foreword/images" / name).stat().st_mode & 0o077 == 0
    for path in (root / ".foreword").glob("*.sqlite*"):
        assert data.encode() not in path.read_bytes()
    headers = {"X-Foreword-Session": session}
    with serve_workspace(root, ScriptedReply(text="Grey.")) as served:
        ask(served, look(text="Which colour?"), extra_headers=headers)
        assert served.provider.requests[-1].refused == ""
        assert str(served.provider.body).count(data) == 1
    (root / ".foreword/images" / name).unlink()
    with serve_workspace(root, ScriptedReply(text="It is gone.")) as served:
        ask(served, look(text="And now?"), extra_headers=headers)
        assert "[image left out: its file is missing]" in str(served.provider.body)
        assert data not in str(served.provider.body)


def test_another_model(tmp_path):
    """A session whose model changes to one without images gets a note in place of each."""
    with serve_workspace(tmp_path, files=SEVERAL) as served:
        served.provider.follow(ScriptedReply(text="A dot."), ScriptedReply(text="A dot, you said."))
        session = ask(served, look(show(make_png()))).foreword["session"]
        served.do(served.gateway.set_model(session, AGENTS["otto"]))
        ask(served, look(text="Again?"), extra_headers={"X-Foreword-Session": session})
        request = served.provider.requests[-1]
        assert (request.shape, request.refused) == ("openai", "")
        assert "[image left out: this model does not take it]" in str(request.body)
        assert "base64" not in str(request.body)


def test_tokens(several):
    """The tokens of an image are estimated by its size, and not by the length of its data."""
    several.provider.follow(ScriptedReply(text="A square."))
    small = ask(several, look(text="Hello [image]")).usage.prompt_tokens
    several.provider.follow(ScriptedReply(text="A square."))
    large = ask(several, look(show(make_png(1_000, 1_000)), text="Hello")).usage.prompt_tokens
    assert 1_300 <= large - small <= 1_400  # 1,000,000 pixels / 750


def test_a_conversation_with_many_images_is_compacted(tmp_path):
    """Images count in the length of a conversation; compaction drops them."""
    config = CONFIG + "models: {claude-sonnet-5: {window: 20000, mode: minimal}}\n"
    with serve_workspace(tmp_path, files={**SEVERAL, "foreword.yaml": config}) as served:
        images = [show(make_png(1_200, 1_000, colour)) for colour in range(4)]
        session = ask(served, look(*images)).foreword["session"]
        headers = {"X-Foreword-Session": session}
        for _ in range(2):
            ask(served, look(*images), extra_headers=headers)
        assert served.list_events(type="session_compacted")
        assert all(request.refused == "" for request in served.provider.requests)
        sent = [str(request.body).count("'base64'") for request in served.provider.requests]
        assert sent == [4, 0, 4, 0, 4]  # before the second and the third message a summary is written


def run(*arguments):
    """Run a command; return its exit code."""
    with pytest.raises(SystemExit) as ended:
        raise SystemExit(main(list(arguments)))
    return ended.value.code


def test_a_request_with_too_many_bytes_is_compacted(tmp_path):
    """A conversation whose images have more bytes than the provider takes is compacted, and the turn is answered."""
    with serve_workspace(tmp_path, files=SEVERAL) as served:
        session = ask(served, look(show(make_png()))).foreword["session"]
        headers = {"X-Foreword-Session": session}
        refusal = ScriptedError(status=413, message="Request exceeds the maximum size")
        served.provider.follow(refusal, ScriptedReply(text="A person showed a dot."), ScriptedReply(text="Two dots."))
        answer = ask(served, look(show(make_png(colour=3))), extra_headers=headers)
        assert answer.choices[0].message.content == "Two dots."
        assert [str(request.body).count("'base64'") for request in served.provider.requests] == [1, 2, 0, 1]


def test_erasure(tmp_path):
    """The export has a person's images; erasure deletes those that no message of another person refers to."""
    root, shared, own = tmp_path / "ws", make_png(colour=1), make_png(colour=2)
    names = {image: sha256(image).hexdigest() for image in (shared, own)}
    with serve_workspace(root, files=SEVERAL) as served:
        ask(served, look(show(shared), show(own)), user="bob")
        ask(served, look(show(shared)), user="carol")
        folder = root / ".foreword"
        assert list_files(root) == sorted(names.values())
    unused, arriving = folder / "images" / "unused.new", folder / "images" / "arriving.new"
    for path in (unused, arriving):
        path.write_bytes(own[:20])
    os.utime(unused, (0, 0))
    gift = tmp_path / "bob.jsonl"
    assert run("-w", str(root), "export", str(gift), "--user", "bob") == 0
    rows = [json.loads(line)["row"] for line in gift.read_text().splitlines()[1:]]
    given = {row["path"]: b64decode(row["base64"]) for row in rows if "base64" in row}
    assert given == {f".foreword/images/{name}": image for image, name in names.items()}
    assert run("-w", str(root), "forget", "bob", "--yes") == 0
    assert list_files(root) == sorted([names[shared], arriving.name])  # a message may be about to refer to a new file
    arriving.unlink()
    assert not [path for path in folder.glob("*.sqlite*") if names[own].encode() in path.read_bytes()]
    assert run("-w", str(root), "forget", "carol", "--yes") == 0
    assert list_files(root) == []


def test_transcripts_show_a_marker(tmp_path):
    """What people read of a conversation shows `[image]`; the log has no image."""
    with serve_workspace(tmp_path, ScriptedReply(text="A dot.")) as served:
        image = make_png(colour=3)
        session = ask(served, look(show(image))).foreword["session"]
        with served.ask_as() as client:
            shown = client.get(f"/api/sessions/{session}").text
        assert "What is this?\\n[image]" in shown
        assert [event["metadata"]["images"] for event in served.list_events(type="message_received")] == [1]
        for text in (shown, str(served.list_events())):
            assert b64encode(image).decode() not in text


def test_a_large_body(tmp_path):
    """Chat completions take bodies of 32 MiB; all other routes keep their limit."""
    images = [show(make_png(colour=colour) + bytes(3_000_000)) for colour in range(4)]
    with serve_workspace(tmp_path, ScriptedReply(text="Dots.")) as served:
        assert ask(served, look(*images)).choices[0].message.content == "Dots."
        with served.ask_as() as client:
            assert client.post("/api/turns", json={"text": "x" * 5_000_000}).status_code == 413
