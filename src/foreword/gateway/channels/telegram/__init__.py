"""The Telegram channel: a bot in private chats, groups and channels."""
