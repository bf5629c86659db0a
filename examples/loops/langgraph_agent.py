"""A chat as a LangGraph graph, whose checkpoint has the session.

Each line of the input is a message: python langgraph_agent.py WORKSPACE
"""

import sys
from typing import TypedDict

import anthropic
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph

import foreword


@foreword.tool(trust="familiar")
def find_train(start: str, end: str) -> str:
    """Find the next train between two cities."""
    return f"{start} to {end}: 9:04"


class Chat(TypedDict, total=False):
    message: str
    reply: str
    session: str


def open_session(chat):
    who = {"user": "alice", "situation": "dm", "model": "anthropic:claude-sonnet-5"}
    return workspace.session(load=chat.get("session", ""), tools=[find_train], **who)


def ask_model(chat):
    session = open_session(chat)
    step = session.step or session.say(chat["message"])
    step.answered(client.messages.create(**step.request))
    return {"session": session.dump(), "reply": "" if session.step else session.reply}


def run_tools(chat):
    session = open_session(chat)
    session.step.run_tools()
    return {"session": session.dump()}


client = anthropic.Anthropic()
graph = StateGraph(Chat).add_node(ask_model).add_node(run_tools).add_edge(START, "ask_model")
graph.add_conditional_edges("ask_model", lambda chat: "__end__" if chat["reply"] else "run_tools")
graph.add_edge("run_tools", "ask_model")
agent = graph.compile(checkpointer=InMemorySaver())
with foreword.open(sys.argv[1]) as workspace:
    for line in sys.stdin:
        result = agent.invoke({"message": line}, {"configurable": {"thread_id": "1"}})
        print(result["reply"], flush=True)
