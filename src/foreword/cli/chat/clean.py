"""Words of models, tools and people, made harmless for a terminal: nothing in them can steer it or reorder a line."""

VISIBLE = "�"
NEWLINES = "\u0085\u2028\u2029"
# U+202E turns the order of what follows around, so that a harmless name can be shown for a harmful one.
REORDERING = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
SURROGATES = range(0xD800, 0xE000)
CONTROLS = [*range(0x20), 0x7F, *range(0x80, 0xA0)]

TABLE: dict[int, str | None] = {
    **dict.fromkeys([*CONTROLS, *map(ord, REORDERING), *SURROGATES], VISIBLE),
    **dict.fromkeys(map(ord, NEWLINES), "\n"),
    ord("\n"): "\n",
    ord("\t"): "\t",
    ord("\r"): None,
}


def clean(text: str) -> str:
    """Make what could steer a terminal visible instead; each sign is judged alone, so pieces of a text join well."""
    return text.translate(TABLE)


def clean_line(text: str) -> str:
    """Make a text one line, and harmless."""
    return " ".join(clean(text).split())
