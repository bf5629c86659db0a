"""A chat with Anthropic's SDK.

Each line of the input is a message: python anthropic_sdk.py WORKSPACE
"""

import sys

import anthropic

import foreword


@foreword.tool(trust="familiar")
def find_train(start: str, end: str) -> str:
    """Find the next train between two cities."""
    return f"{start} to {end}: 9:04"


client = anthropic.Anthropic()
with foreword.open(sys.argv[1]) as workspace:
    session = workspace.session(user="alice", situation="dm", model="anthropic:claude-sonnet-5", tools=[find_train])
    for line in sys.stdin:
        step = session.say(line)
        while step:
            step.run_tools()
            step = step.answered(client.messages.create(**step.request))
        print(session.reply, flush=True)
