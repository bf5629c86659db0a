"""The HTTP API: OpenAI-compatible chat completions under `/v1` and the gateway's own routes under `/api`."""
