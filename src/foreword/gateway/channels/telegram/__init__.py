"""Telegram: a bot that hears private chats, groups and channels, and answers there."""
