"""A chat with OpenAI's SDK and chat completions.

Each line of the input is a message: python openai_chat.py WORKSPACE
"""

import sys

import openai

import foreword


@foreword.tool(trust="familiar")
def find_train(start: str, end: str) -> str:
    """Find the next train between two cities."""
    return f"{start} to {end}: 9:04"


client = openai.OpenAI()
with foreword.open(sys.argv[1]) as workspace:
    session = workspace.session(user="alice", situation="dm", model="openai:gpt-5", tools=[find_train])
    for line in sys.stdin:
        step = session.say(line)
        while step:
            step.run_tools()
            step = step.answered(client.chat.completions.create(**step.request))
        print(session.reply, flush=True)
