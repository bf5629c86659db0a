"""Names of people, agents, rooms and files: letters of every script, safe as names of folders."""

from unicodedata import category, normalize
from unicodedata import name as describe

MAX_NAME_BYTES = 200  # file systems take 255 for one name
SIGNS = "._-"
# Letters and marks that show nothing, which the categories of Unicode do not tell apart from visible ones.
INVISIBLE = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u3164\uffa0")
VARIATIONS = (("\ufe00", "\ufe0f"), ("\U000e0100", "\U000e01ef"))
# Scripts that share the shapes of many letters: a name with letters of two of them can pass for another name.
ALIKE = frozenset({"LATIN", "CYRILLIC", "GREEK"})


def normalize_name(name: str) -> str:
    """Return the one spelling of a name: Unicode has several for letters such as é."""
    return name if name.isascii() else normalize("NFC", name)


def judge_name(name: str, signs: str = SIGNS) -> str:
    """Say what is wrong with a name in its normal form, or nothing."""
    allowed = name[:1].isalnum() and all(is_letter(sign) or sign in signs for sign in name)
    if not allowed or ".." in name:
        return f"is not a usable name; use letters, digits and {signs}, a letter or digit first, and no '..'"
    if len(name.encode()) > MAX_NAME_BYTES:
        return f"is not a usable name; it has {len(name.encode())} bytes, and {MAX_NAME_BYTES} are the most"
    if len(scripts := find_scripts(name)) > 1:
        return f"is not a usable name; it mixes {' and '.join(scripts)} letters, which look alike"
    return ""


def is_letter(sign: str) -> bool:
    """Whether a character is a visible letter, a mark on one, or a digit."""
    if sign in INVISIBLE or any(low <= sign <= high for low, high in VARIATIONS):
        return False
    kind = category(sign)
    return kind[0] == "L" or kind in ("Mn", "Mc", "Nd")


def find_scripts(name: str) -> list[str]:
    """Return the scripts of a name among those whose letters look alike."""
    if name.isascii():
        return []
    words = {describe(sign, "").partition(" ")[0] for sign in name if sign.isalpha()}
    return sorted(word.capitalize() for word in words & ALIKE)
