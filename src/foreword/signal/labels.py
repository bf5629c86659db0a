"""Labels: what a channel writes before the words of a person, in brackets, to say what the words do not."""

import re

CORRECTED = "[corrects an earlier message]"
FORWARDED = "[forwarded"  # as it begins; whose words they are may follow
_LABELS = re.compile(r"\s*(?:\[[^\[\]\n]{1,120}\]\s*)+")


def drop_labels(text: str) -> str:
    """Keep the words of a message without its labels; those that were forwarded are somebody else's."""
    labels = _LABELS.match(text)
    if labels is None:
        return text
    return "" if FORWARDED in labels[0] else text[labels.end() :]


def drop_corrected(text: str) -> str:
    """Keep a message as it would be if it corrected none."""
    return text.removeprefix(CORRECTED).lstrip()
