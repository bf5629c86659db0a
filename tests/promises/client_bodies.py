"""Requests as popular clients of OpenAI's API send them, in our own words."""

PARAMETERS = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}


def make_tool(name, **more):
    """Make a tool as clients declare one."""
    return {"type": "function", "function": {"name": name, "description": name, "parameters": PARAMETERS, **more}}


def say(text, **more):
    """Make the message of a person."""
    return {"role": "user", "content": text, **more}


CALLED = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "look_up", "arguments": "{}"}}],
}
RESULT = {"role": "tool", "tool_call_id": "call_1", "content": "It is raining."}

BODIES = {
    "open-webui": {
        "stream": True,
        "model": "reid",
        "messages": [{"role": "system", "content": "User context: none."}, say("Hello")],
        "tools": [make_tool(f"builtin_{number}") for number in range(36)],
        "stream_options": {"include_usage": True},
    },
    "opencode": {
        "model": "reid",
        "max_tokens": 32_000,
        "top_p": 1,
        "messages": [
            {"role": "system", "content": "You are a coding agent."},
            say([{"type": "text", "text": "Hello"}]),
        ],
        "tools": [make_tool(name) for name in ("bash", "edit", "glob", "grep", "read", "todowrite", "webfetch")],
        "tool_choice": "auto",
        "stream": True,
        "stream_options": {"include_usage": True},
        "prompt_cache_key": "ses_1",
    },
    "langchain": {
        "model": "reid",
        "messages": [
            say("What is the weather?"),
            CALLED,
            RESULT,
            {"role": "assistant", "content": "Rain."},
            say("Hello"),
        ],
        "tools": [make_tool("look_up", strict=True)],
        "parallel_tool_calls": False,
        "temperature": 0.0,
    },
    "pydantic-ai": {
        "model": "reid",
        "messages": [{"role": "system", "content": "Be brief."}, say("Hello")],
        "tools": [make_tool("look_up")],
        "tool_choice": "auto",
        "stream": False,
        "parallel_tool_calls": True,
    },
    "agents-sdk": {
        "model": "reid",
        "messages": [{"role": "developer", "content": "You are a helper."}, say("Hello")],
        "tools": [make_tool("transfer_to_billing"), make_tool("look_up")],
        "tool_choice": "auto",
        "metadata": None,
        "store": False,
        "stream": False,
    },
    "llm -T": {
        "model": "reid",
        "messages": [say("What is the weather?"), CALLED, RESULT],
        "tools": [make_tool("look_up")],
        "stream": True,
    },
    "older functions": {
        "model": "reid",
        "messages": [say("Hello")],
        "functions": [{"name": "look_up", "parameters": PARAMETERS}],
        "function_call": "auto",
    },
}

OWUI_TASK = """### Task:
{order}

### Guidelines:
- Keep to the language of the chat.

### Output:
JSON format: {{ "{key}": {value} }}

### Chat History:
<chat_history>
USER: {said}
ASSISTANT: By the east wall.
</chat_history>"""


def make_task(order, key, value='"…"', said="Where is the plum tree?", **more):
    """Make a request that Open WebUI sends for itself."""
    text = OWUI_TASK.format(order=order, key=key, value=value, said=said)
    return {"model": "reid", "messages": [say(text)], "stream": False, **more}


HOUSEKEEPING = {
    "title": make_task("Write a short title for the chat.", "title", max_completion_tokens=1_000),
    "tags": make_task("Write one to three tags for the chat.", "tags", "[]"),
    "follow-ups": make_task("Suggest three questions that the user may ask next.", "follow_ups", "[]"),
    "search queries": make_task("Decide whether search queries are needed.", "queries", "[]"),
    "autocompletion": make_task("Continue the text.", "text"),
    "emoji": {
        "model": "reid",
        "messages": [say("Your task is to reflect the speaker's likely facial expression as an emoji. Message: hi")],
        "max_tokens": 4,
    },
}
NAMED = {"model": "reid", "messages": [say("A template of the admin's own.")], "metadata": {"task": "title_generation"}}
SHORT = {"model": "reid", "messages": [say("### Task:\nName this chat: hello")], "max_tokens": 50}
OPENCODE_TITLE = {
    "model": "reid",
    "messages": [
        {"role": "system", "content": "You are a title generator. You output a title and nothing else."},
        say("Generate a title for this conversation:"),
        say("Where is the plum tree?"),
    ],
    "stream": True,
}
LIBRECHAT_TITLE = {
    "model": "reid",
    "messages": [say("Provide a concise, 5-word-or-less title for the conversation, in its language.\n\nUser: hi")],
}
