"""The providers' own libraries work with the fake provider, with and without streaming."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from foreword.testing import ScriptedCall, ScriptedError, ScriptedReply, run_fake_provider

SCHEMA = {"type": "object", "properties": {"room": {"type": "string"}}}
LINE = ScriptedReply(text="Let me see — now.", calls=(ScriptedCall(name="lamps", arguments={"room": "hall"}),))


@pytest.fixture
def stand_in():
    """A fake provider on the loopback."""
    with run_fake_provider() as one:
        yield one


def ask_anthropic(url, *, streamed):
    """Send a request with Anthropic's library; return text, arguments of the call and usage."""
    from anthropic import Anthropic

    request = {
        "model": "claude-sonnet-5",
        "max_tokens": 64,
        "messages": [{"role": "user", "content": "Hi"}],
        "tools": [{"name": "lamps", "input_schema": SCHEMA}],
    }
    with Anthropic(base_url=url, api_key="k", max_retries=0) as client:
        if streamed:
            with client.messages.stream(**request) as stream:
                message = stream.get_final_message()
        else:
            message = client.messages.create(**request)
    text, call = message.content
    return text.text, call.input, (message.usage.input_tokens, message.usage.output_tokens)


def ask_chat(url, *, streamed):
    """Send a request with OpenAI's library, as a chat."""
    from openai import OpenAI

    request = {"model": "gpt-5", "messages": [{"role": "user", "content": "Hi"}]}
    with OpenAI(base_url=f"{url}/v1", api_key="k", max_retries=0) as client:
        if not streamed:
            answer = client.chat.completions.create(**request)
            message = answer.choices[0].message
            arguments, usage = message.tool_calls[0].function.arguments, answer.usage
            return message.content, json.loads(arguments), (usage.prompt_tokens, usage.completion_tokens)
        text = arguments = ""
        with client.chat.completions.create(stream=True, **request) as stream:
            for chunk in stream:
                if chunk.usage:
                    usage = chunk.usage
                for choice in chunk.choices:
                    text += choice.delta.content or ""
                    arguments += "".join(call.function.arguments for call in choice.delta.tool_calls or ())
        return text, json.loads(arguments), (usage.prompt_tokens, usage.completion_tokens)


def ask_responses(url, *, streamed):
    """Send a request with OpenAI's library, as a response."""
    from openai import OpenAI

    request = {"model": "gpt-5", "input": [{"role": "user", "content": [{"type": "input_text", "text": "Hi"}]}]}
    with OpenAI(base_url=f"{url}/v1", api_key="k", max_retries=0) as client:
        if streamed:
            with client.responses.stream(**request) as stream:
                answer = stream.get_final_response()
        else:
            answer = client.responses.create(**request)
    call = answer.output[1]
    return answer.output_text, json.loads(call.arguments), (answer.usage.input_tokens, answer.usage.output_tokens)


def ask_gemini(url, *, streamed):
    """Send a request with Google's library."""
    from google import genai
    from google.genai import types

    client = genai.Client(api_key="k", http_options=types.HttpOptions(base_url=url))
    try:
        ask = client.models.generate_content_stream if streamed else client.models.generate_content
        answers = ask(model="gemini-3-pro", contents="Hi")
        pieces = list(answers) if streamed else [answers]
    finally:
        client.close()
    parts = [part for piece in pieces for part in piece.candidates[0].content.parts]
    (call,) = [part.function_call for part in parts if part.function_call]
    used = pieces[-1].usage_metadata
    return "".join(part.text or "" for part in parts), call.args, (used.prompt_token_count, used.candidates_token_count)


ASKED = {"anthropic": ask_anthropic, "openai": ask_chat, "responses": ask_responses, "gemini": ask_gemini}


@pytest.mark.parametrize("shape", ASKED)
def test_streamed_or_not(stand_in, shape):
    """A provider's library reads the same text, calls and usage from a stream and from a whole answer."""
    answers = []
    for streamed in (False, True):
        stand_in.follow(LINE)
        answers.append(ASKED[shape](stand_in.url, streamed=streamed))
        stand_in.cache.clear()
        assert (stand_in.requests[-1].shape, stand_in.requests[-1].streamed) == (shape, streamed)
    (words, arguments, used), other = answers
    assert (words, arguments) == ("Let me see — now.", {"room": "hall"})
    assert min(used) > 0
    assert answers[0] == other


@pytest.mark.parametrize("shape", ["anthropic", "openai"])
def test_refusals(stand_in, shape):
    """An error reaches a library as its own exception, with the status and the wait."""
    import anthropic
    import openai

    error = {"anthropic": anthropic.RateLimitError, "openai": openai.RateLimitError}[shape]
    stand_in.follow(ScriptedError(retry_after=3))
    with pytest.raises(error, match="too many requests") as caught:
        ASKED[shape](stand_in.url, streamed=False)
    assert caught.value.response.headers["retry-after"] == "3"


def test_malformed_requests(stand_in):
    """A request without the fields that the rules read is refused."""
    import httpx2

    answer = httpx2.post(f"{stand_in.url}/v1/messages", json={"model": "m", "messages": [3]})
    assert answer.status_code == 400
    assert "malformed" in answer.json()["error"]["message"]


def test_many_at_once(stand_in):
    """Concurrent requests each get their own answer."""
    stand_in.choose = lambda body: ScriptedReply(text=body["messages"][0]["content"], calls=LINE.calls)

    def ask(number):
        import httpx2

        body = {"model": "m", "messages": [{"role": "user", "content": f"number {number}"}]}
        answer = httpx2.post(f"{stand_in.url}/v1/chat/completions", json=body)
        return answer.json()["choices"][0]["message"]["content"]

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(ask, range(40))) == [f"number {number}" for number in range(40)]
    assert len(stand_in.requests) == 40
