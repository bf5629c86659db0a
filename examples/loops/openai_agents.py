"""A chat with an agent of the OpenAI Agents SDK, which calls the model and the tools.

Each line of the input is a message: python openai_agents.py WORKSPACE
"""

import sys

import agents

import foreword


@foreword.tool(trust="familiar")
def find_train(start: str, end: str) -> str:
    """Find the next train between two cities."""
    return f"{start} to {end}: 9:04"


class FollowedRun(agents.RunHooks):
    """Gives each reply of the model to the session."""

    async def on_llm_end(self, context, agent, response):
        used = response.usage
        details = used.input_tokens_details.model_dump()
        usage = {
            "input_tokens": used.input_tokens,
            "input_tokens_details": details,
            "output_tokens": used.output_tokens,
        }
        output = [item.model_dump() for item in response.output]
        session.answered({"id": response.response_id, "status": "completed", "output": output, "usage": usage})


async def call(context, _):
    return await session.step.run_call(context.tool_call_id)


model, history = "gpt-5", []
with foreword.open(sys.argv[1]) as workspace:
    session = workspace.session(user="alice", situation="dm", model=f"openai-responses:{model}", tools=[find_train])
    for line in sys.stdin:
        step = session.say(line)
        tools = [
            agents.FunctionTool(one.name, one.description, dict(one.parameters), call, strict_json_schema=False)
            for one in step.tools
        ]
        agent = agents.Agent(name="reid", model=model, instructions=step.system, tools=tools)
        texts = [{"type": "input_text", "text": text} for text in (step.tail, step.message)]
        result = agents.Runner.run_sync(agent, [*history, {"role": "user", "content": texts}], hooks=FollowedRun())
        history = result.to_input_list()
        print(result.final_output, flush=True)
