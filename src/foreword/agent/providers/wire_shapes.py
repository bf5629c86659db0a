"""The wire shapes by what a provider speaks; importing them needs no HTTP client."""

from collections.abc import Mapping

from foreword.agent.providers.anthropic_messages import AnthropicMessages
from foreword.agent.providers.gemini_content import GeminiContent
from foreword.agent.providers.openai_chat import AzureChat, OpenAIChat
from foreword.agent.providers.openai_responses import OpenAIResponses
from foreword.agent.providers.provider import WireShape

WIRE_SHAPES: Mapping[str, WireShape] = {
    "anthropic": AnthropicMessages(),
    "openai": OpenAIChat("max_completion_tokens"),
    "azure": AzureChat(),
    "compatible": OpenAIChat("max_tokens"),
    "responses": OpenAIResponses(),
    "gemini": GeminiContent(),
}
