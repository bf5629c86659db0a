"""Folding: lower case for matching, in which places stay what they were."""


def fold(text: str) -> str:
    """Return a text in lower case in which every character stands where it stood."""
    lower = text.lower()
    if len(lower) == len(text):
        return lower
    return "".join(low if len(low := sign.lower()) == 1 else sign for sign in text)
