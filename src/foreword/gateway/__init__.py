"""The gateway: accepts messages, runs their turns and delivers the replies."""
