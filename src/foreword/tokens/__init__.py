"""Token counts, and facts about models."""
