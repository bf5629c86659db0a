"""The runtime: one turn of an agent, with a model that is called, tools that run, and everything told."""
