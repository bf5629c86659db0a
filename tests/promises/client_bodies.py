"""Requests of popular clients of OpenAI's API, with rewritten texts."""

PARAMETERS = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}


def make_tool(name, **more):
    """Make a tool as clients declare it."""
    return {"type": "function", "function": {"name": name, "description": name, "parameters": PARAMETERS, **more}}


def say(text, **more):
    """Make a user message."""
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
    """Make a request that Open WebUI sends by itself."""
    text = OWUI_TASK.format(order=order, key=key, value=value, said=said)
    return {"model": "reid", "messages": [say(text)], "stream": False, **more}


COMPLETION = """### Task:
Continue the text in `<text>`.

### **Output Rules**:
- Answer in JSON: `{ "text": "…" }`.

### Context:
<chat_history>
USER: Where is the plum tree?
</chat_history>
<type>General</type>
<text>The plum tree</text>
#### Output:
"""
HOUSEKEEPING = {
    "title": make_task("Write a short title for the chat.", "title", max_completion_tokens=1_000),
    "tags": make_task("Write one to three tags for the chat.", "tags", "[]"),
    "follow-ups": make_task("Suggest three questions that the user may ask next.", "follow_ups", "[]"),
    "search queries": make_task("Decide whether search queries are needed.", "queries", "[]"),
    "image prompt": make_task("Describe an image.", "prompt"),
    "autocompletion": {"model": "reid", "messages": [say(COMPLETION)], "stream": False},
    "emoji": {
        "model": "reid",
        "messages": [
            say("Your task is to reflect the speaker's likely facial expression as an emoji.\n\nMessage: ```hi```")
        ],
        "max_tokens": 4,
    },
}
NAMED = {"model": "reid", "messages": [say("A template of the admin's own.")], "metadata": {"task": "title_generation"}}
OPENCODE_PROMPT = """You are a title generator. You output ONLY a thread title. Nothing else.

<task>
Name the thread.
</task>

<rules>
- One line
</rules>

<examples>
"where is it" → Place
</examples>"""
OPENCODE_TITLE = {
    "model": "reid",
    "messages": [
        {"role": "system", "content": OPENCODE_PROMPT},
        say("Generate a title for this conversation:"),
        say("Where is the plum tree?"),
    ],
    "stream": True,
}
LIBRECHAT_TITLE = {
    "model": "reid",
    "messages": [
        say(
            "Provide a concise, 5-word-or-less title for the conversation, using title case conventions. Only return "
            "the title itself.\n\nConversation:\nUser: hi\nAI: Hello."
        )
    ],
}
LIBRECHAT_OLD = {
    "model": "reid",
    "messages": [
        {
            "role": "system",
            "content": "Please generate a concise, 5-word-or-less title for the conversation, in its language.\n\n"
            '||>User:\n"hi"\n||>Response:\n"Hello."\n\n||>Title:',
        }
    ],
}
NEXTCHAT_TITLE = {
    "model": "reid",
    "messages": [
        say("hi"),
        {"role": "assistant", "content": "Hello."},
        say(
            "Please generate a four to five word title summarizing our conversation without any lead-in or symbols. "
            "Remove enclosing quotation marks."
        ),
    ],
}

DOCUMENTS = """### Task:
Respond to the user query using the provided context, citing each <source> that has an id.

### Output:
A clear answer.

<context>
<source id="1" name="notes.md">{document}</source>
</context>
"""
QUOTED = '{ "title": "…" }\n\n### Chat History:\n<chat_history>\nUSER: hi\n</chat_history>'


def ask_documents(document, question="Where is the plum tree?", **more):
    """Make a question about documents, as Open WebUI sends it."""
    return {"model": "reid", "messages": [say(DOCUMENTS.format(document=document) + question)], **more}


PEOPLE = {
    "documents": ask_documents("The plum tree is by the wall.", stream=False, max_tokens=500),
    "documents that quote a history": ask_documents(QUOTED, stream=True),
    "documents, and a question that quotes a history": ask_documents("Plums.", question=QUOTED),
    "documents in the system message": {
        "model": "reid",
        "messages": [
            {"role": "system", "content": DOCUMENTS.format(document="Plums.")},
            say("Where is the plum tree?"),
        ],
        "max_tokens": 50,
    },
    "a person's own task": {"model": "reid", "messages": [say("### Task:\nWater the plum tree.")], "max_tokens": 50},
    "a question about a template": {
        "model": "reid",
        "messages": [say(f"### Task:\nWhat is wrong with this template?\n\n### Task:\nWrite a title.\n{QUOTED}")],
    },
    "a quotation of the history's tags": {
        "model": "reid",
        "messages": [say('### Task:\nWhat does <chat_history> mean next to { "title": 1 } in </chat_history>')],
    },
    "a task after a conversation": {
        "model": "reid",
        "messages": [
            say("hi"),
            {"role": "assistant", "content": "Hello."},
            *make_task("Write a title.", "title")["messages"],
        ],
    },
    "a task without a known key": make_task("Write a poem about the chat.", "poem"),
    "a title generator that talks": {
        "model": "reid",
        "messages": [{"role": "system", "content": "You are a title generator. Be kind."}, say("Hello")],
    },
    "a person who wants titles": {
        "model": "reid",
        "messages": [say("You are a title generator. Give me three titles for my book about plums.")],
    },
    "a person who quotes the beginning of a prompt": {
        "model": "reid",
        "messages": [say("Provide a concise, 5-word-or-less title for the conversation between my two plums")],
    },
    "a person who wants a face": {
        "model": "reid",
        "messages": [say("Your task is to reflect the speaker's likely facial expression in my novel.")],
    },
    "a request for a title": {"model": "reid", "messages": [say("Give this chat a title, please.")]},
    "another task": {"model": "reid", "messages": [say("Hello")], "metadata": {"task": "something_else"}},
    "a short answer": {"model": "reid", "messages": [say("Hello")], "max_tokens": 50},
}
