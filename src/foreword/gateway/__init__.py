"""The gateway: messages of people in, replies of agents out, and nothing lost on the way."""
