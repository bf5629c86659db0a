"""The closed vocabularies of Foreword: every level, pace, place, verdict and mode that exists."""

from enum import Enum, IntEnum


class Trust(IntEnum):
    """How much a reader may see: `public < familiar < inner < full`."""

    PUBLIC = 0
    FAMILIAR = 1
    INNER = 2
    FULL = 3

    def __str__(self) -> str:
        return self.name.lower()


class Pace(IntEnum):
    """What a section may depend on, from the slowest to the fastest."""

    STATIC = 0
    SESSION = 1
    TURN = 2

    def __str__(self) -> str:
        return self.name.lower()


class Word(Enum):
    """A name whose value is what people read and write."""

    __hash__ = object.__hash__  # members are single; the inherited hash is Python code on every turn's path

    def __str__(self) -> str:
        return str(self.value)


class Placement(Word):
    """Where a section travels: in the system prompt, with the newest user message, or where a template names it."""

    SYSTEM = "system"
    TAIL = "tail"
    NESTED = "nested"


class Verdict(Word):
    """What became of a slot."""

    KEPT = "kept"
    SHORTENED = "shortened"
    INDEXED = "indexed"
    DROPPED = "dropped"
    WITHHELD = "withheld"
    ABSENT = "absent"


class Mode(Word):
    """How much of a blueprint a turn gets: the slots that list it under `modes`.

    `brief` is for very small models and windows; `brief` and `none` have no tools.
    """

    FULL = "full"
    MINIMAL = "minimal"
    BRIEF = "brief"
    NONE = "none"


class Delivery(Word):
    """What happens with the reply of a run that nobody is waiting for."""

    ALWAYS = "always"
    AS_NEEDED = "as_needed"
    NEVER = "never"


class Policy(Word):
    """When an edit of a section reaches a session that has sent it already."""

    NOW = "now"
    APPEND = "append"
    COLD = "cold"
    NEXT_SESSION = "next-session"
    AUTO = "auto"


class Vocabulary(Word):
    """A vocabulary that tokens can be counted with."""

    O200K = "o200k"
    CL100K = "cl100k"
    LLAMA3 = "llama3"
    LLAMA2 = "llama2"
    DEEPSEEK_V3 = "deepseek_v3"
    QWEN3 = "qwen3"
    GLM4 = "glm4"
    KIMI = "kimi"
    PHI4 = "phi4"
    MISTRAL_V3 = "mistral_v3"
    MISTRAL_V1 = "mistral_v1"
    GEMMA3 = "gemma3"
    GEMMA2 = "gemma2"
