"""A chat with a Pydantic AI agent, which calls the model and the tools.

Each line of the input is a message: python pydantic_ai_agent.py WORKSPACE
"""

import sys

import pydantic_ai
from pydantic_ai.models.wrapper import WrapperModel

import foreword


@foreword.tool(trust="familiar")
def find_train(start: str, end: str) -> str:
    """Find the next train between two cities."""
    return f"{start} to {end}: 9:04"


class FollowedModel(WrapperModel):
    """Gives each reply of the model to the session."""

    async def request(self, *given):
        response = await super().request(*given)
        used = response.usage
        calls = {one.tool_call_id: (one.tool_name, one.args_as_dict()) for one in response.tool_calls}
        counts = {"tokens_in": used.input_tokens, "tokens_out": used.output_tokens}
        cached = {"cache_read": used.cache_read_tokens, "cache_write": used.cache_write_tokens}
        session.answered(foreword.Reply(text=response.text or "", calls=calls, **counts, **cached))
        return response


async def call(context, **_):
    return await session.step.run_call(context.tool_call_id)


model, history = "anthropic:claude-sonnet-5", []
cached = dict.fromkeys(("anthropic_cache_instructions", "anthropic_cache_messages"), True)
agent = pydantic_ai.Agent(FollowedModel(model), model_settings=cached)
with foreword.open(sys.argv[1]) as workspace:
    session = workspace.session(user="alice", situation="dm", model=model, tools=[find_train])
    for line in sys.stdin:
        step = session.say(line)
        schemas = [(one.name, one.description, dict(one.parameters)) for one in step.tools]
        tools = pydantic_ai.FunctionToolset(
            [pydantic_ai.Tool.from_schema(call, *one, takes_ctx=True) for one in schemas]
        )
        said = [step.tail, step.message]
        result = agent.run_sync(said, instructions=step.system, message_history=history, toolsets=[tools])
        history = result.all_messages()
        print(result.output, flush=True)
