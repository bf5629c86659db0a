"""Which tokens of an answer the real engine evaluates again."""

import asyncio

import httpx2
import pytest
from embedded import ask

from foreword.agent.providers.embedded_engine import EmbeddedEngine, EngineTransport
from foreword.agent.providers.embedded_weights import EngineSettings

SAID = (
    "What can be cooked of eggs and leeks?",
    "Name five herbs.",
    "Write a poem of two lines.",
    "Which is your name?",
)
WILD = 1.6  # a temperature at which the engine often picks unusual tokens for a word


class Talk:
    """A conversation with an engine: its messages, and the tokens that the engine has evaluated for it so far."""

    def __init__(self, engine):
        self.engine = engine
        self.messages = []
        self.evaluated = []

    async def say(self, client, text, **sampling):
        """Say something; return how many tokens were read from the cache, and how many could be."""
        self.messages.append({"role": "user", "content": text})
        asked = {"model": "own", "messages": self.messages, "max_tokens": 24, "prompt_cache_key": "one"}
        response = await client.post("http://engine/v1/chat/completions", json=asked | sampling, timeout=120)
        answer = response.json()
        (choice,) = answer["choices"]
        sent = self.count(self.messages)
        kept = count_common(sent, self.evaluated)
        # The engine evaluates the last chosen token only once another follows it.
        self.evaluated = [*sent, *(one["id"] for one in choice["logprobs"]["content"][:-1])]
        self.messages.append({"role": "assistant", "content": choice["message"]["content"]})
        assert answer["usage"]["prompt_tokens"] == len(sent)
        return answer["usage"]["prompt_tokens_details"]["cached_tokens"], min(kept, len(sent) - 1)

    def count(self, messages):
        """Tokenize messages as the engine does, including the tokens before its answer."""
        running = self.engine.start()
        prompt = ask(running, "/apply-template", {"messages": messages})["prompt"]
        return ask(running, "/tokenize", {"content": prompt, "add_special": True, "parse_special": True})["tokens"]


def count_common(one, other):
    """Count the tokens up to the first that differs."""
    return next(
        (at for at, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), min(len(one), len(other))
    )


@pytest.mark.parametrize("edited", [False, True])
def test_from_the_first_token_that_differs(weights, edited):
    """The engine evaluates again from the first token that differs, for any text and tokenization."""

    async def talk():
        engine = EmbeddedEngine(EngineSettings(path=weights, weights=None, window=1_024, slots=1))
        async with httpx2.AsyncClient(transport=EngineTransport(engine)) as client:
            one, found = Talk(engine), []
            for number, text in enumerate(SAID):
                shown = {"logprobs": True, "top_logprobs": 1, "temperature": WILD, "seed": number}
                found.append(await one.say(client, text, **shown))
                if edited:
                    words = one.messages[-1]["content"].split()
                    one.messages[-1]["content"] = " ".join([*words[:2], "Otherwise,", *words[2:]])
            return found

    (first, _), *rest = asyncio.run(talk())
    assert first == 0
    assert [read for read, _ in rest] == [kept for _, kept in rest]
    assert all(read for read, _ in rest)
