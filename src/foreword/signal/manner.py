"""Manner: how a message is written, by plain counting, whatever it is about.

Nothing here asks a model, and nothing here keeps anything.
"""

import re

from foreword.frozen import frozen
from foreword.secret import suspect_secrets

READ = 4_000  # characters of a message that are looked at
LONGEST = 400  # words that a message counts for; who writes more has pasted something

# What is somebody else's: code, quoted lines, addresses.
_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`|[A-Za-z][\w+.-]{1,20}://\S*|[\w.+-]{1,64}@\S*", re.DOTALL)
_QUOTED = re.compile(r"^[ \t]*>[^\n]*$", re.MULTILINE)
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)?")
_TOPIC = re.compile(r"(?<![\w'’.-])[^\W\d_]{4,24}(?![\w'’-])")  # whole words: no part of a key or a name of a file
_FORMAL = re.compile(
    r"\b(?:please|kindly|(?:would|could|may|might) (?:you|i)|thank you|dear|sincerely|regards|i would"
    r"|bitte|könnten sie|würden sie|vous|s'il vous|por favor|usted|cordialement|freundlichen)\b"
)
_CASUAL = re.compile(
    r"\b(?:hey+|hi|yo|lo+l|lmao|(?:ha){2,}h?|thx|pls|plz|u|ur|gonna|wanna|gotta|dunno|kinda|yeah|yep|yup|nope|nah|btw"
    r"|idk|imo|cool|dude|guys|ok|okay|omg|wtf|sup)\b|!{2,}|\?{2,}|[:;]-?[)(DPp]|[\U0001f300-\U0001faff\u2600-\u27bf]"
)
# Somebody may say what a password is in a whole sentence, which no shape of a secret tells.
_CONFIDED = re.compile(r"pass(?:word|wort|phrase|code|wd)|\bpwd\b|\bpin\b|secret|credential|geheim|contraseña")
STOP = frozenset(
    "about above actually after again against almost already also although always another anybody anyone anything are"
    " around because been before being below best better between both came cannot come comes could dear didn does doesn"
    " doing done down each either else enough even ever every everything from gave gets give gives goes going gonna good"
    " great hadn have haven having hello help here hers herself himself into itself just keep kindly know last least"
    " less like likely little long look looks made make makes making many maybe mean means might mine more most much"
    " must myself need needs never next nothing okay once only onto other others ours over perhaps please pretty quite"
    " rather really regards right said same says seem seems shall should show since some somebody someone something"
    " soon still such sure take takes tell than thank thanks that their theirs them then there these they thing things"
    " think this those through today together tomorrow tonight under until upon used using very wanna want wants well"
    " went were what whatever when where whether which while whole whose will with within without work would wouldn yeah"
    " yesterday your yours yourself"
    " aber alle alles also auch beim bitte danke dann dass denn dein deine diese dieser doch eine einem einen einer"
    " etwas ganz haben habe hast hatte hier immer jetzt kann kannst kein keine können mehr mein meine muss nach nicht"
    " noch oder ohne schon sein seine sich sind sollte über unser unter viel vielleicht wann warum weil wenn werden wird"
    " wieder wurde zwischen"
    " alors avec avoir bien cela cette comme dans depuis donc elle elles encore être fait faire leur mais même merci nous"
    " parce pour pourquoi quand quel quelle sans sont tout tous très vous votre"
    " como cuando donde desde ella ellos entre esta este esto estos gracias hasta hola muchas mucho para pero porque"
    " puede quiero sobre también tiene todo todos".split()
)


@frozen(eq=True)
class Manner:
    """How one message is written."""

    words: int
    tone: int
    """1 if it is formal, -1 if it is casual, 0 where neither shows."""
    topics: tuple[str, ...] = ()
    """The words that it may be about, each once; none where it may hold a secret."""


def read_manner(message: str) -> Manner | None:
    """Read how a person writes from one message of theirs; None where nothing in it is their own."""
    own = keep_own(message[:READ])
    words = _WORD.findall(own)
    if not words:
        return None
    return Manner(words=min(len(words), LONGEST), tone=find_tone(own, len(words)), topics=find_topics(own, message))


def keep_own(text: str) -> str:
    """Keep what a person wrote themselves, as far as that shows."""
    return _CODE.sub(" ", _QUOTED.sub(" ", text))


def find_tone(text: str, words: int) -> int:
    """Find whether a text is formal or casual, by which of the two has more signs."""
    lower = text.casefold()
    formal, casual = len(_FORMAL.findall(lower)), len(_CASUAL.findall(lower))
    if words > 2 and text.lstrip()[:1].islower():
        casual += 1
    return (formal > casual) - (formal < casual)


def find_topics(own: str, message: str) -> tuple[str, ...]:
    """Find what a text may be about; one that may hold a secret says nothing."""
    seen = message[: READ * 2]  # beyond what is read, so that no secret is cut in two
    if _CONFIDED.search(seen.casefold()) or next(suspect_secrets(seen), None):
        return ()
    found = dict.fromkeys(word.casefold() for word in _TOPIC.findall(own))
    return tuple(word for word in found if word not in STOP)
