"""The HTTP API: OpenAI's chat completions, and the gateway's own routes beside them."""
