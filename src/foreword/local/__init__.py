"""A model that answers without a key: an engine in a process of its own, and where its weights come from."""
