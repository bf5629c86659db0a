"""A chat through LiteLLM, in an event loop; another provider needs another model here and there.

Each line of the input is a message: python litellm_any.py WORKSPACE
"""

import asyncio
import sys

import litellm

import foreword


@foreword.tool(trust="familiar")
async def find_train(start: str, end: str) -> str:
    """Find the next train between two cities."""
    return f"{start} to {end}: 9:04"


async def answer(session, text):
    step = session.say(text)
    while step:
        await step.run_tools_async()
        request = {**step.request, "model": "anthropic/claude-sonnet-5"}
        step = step.answered(await litellm.anthropic.messages.acreate(**request))
    return session.reply


with foreword.open(sys.argv[1]) as workspace:
    session = workspace.session(user="alice", situation="dm", model="anthropic:claude-sonnet-5", tools=[find_train])
    for line in sys.stdin:
        print(asyncio.run(answer(session, line)), flush=True)
