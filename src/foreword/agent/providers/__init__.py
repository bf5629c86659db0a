"""The embedded model: weights that are fetched once, and an engine in a child process that speaks as OpenAI does."""
