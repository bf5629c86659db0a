"""Detect prompt injections: phrases of known attacks, and characters that hide text from people."""

import re
from collections.abc import Iterator

from foreword.engine.sources.forms import fill_form
from foreword.secret import compile_pattern, lower_in_place
from foreword.types import TextEnum, frozen


class InjectionKind(TextEnum):
    """The kind of a suspicious passage."""

    INSTRUCTION_OVERRIDE = "instruction_override"
    SECRETS_EXFILTRATION = "secrets_exfiltration"
    SAFETY_BYPASS = "safety_bypass"
    INVISIBLE = "invisible"
    BIDI_CONTROL = "bidi_control"
    HIDDEN_TEXT = "hidden_text"


@frozen(eq=True)
class InjectionHit:
    """One suspicious passage, with its position in code points."""

    kind: InjectionKind
    start: int
    end: int


# Words and gaps share no character and are bounded, so that no text makes these patterns slow.
_GAP = r"[*_]{0,3}\s[\s*_>]{0,5}"
_WORD = r"[^\s*_>]{1,40}"

_DROP = (
    r"(?:ignor(?:e|ing)|disregard(?:ing)?|forget|overrid(?:e|ing)|overrule|discard|neglect"
    r"|do(?: not|n['’]t) (?:follow|obey)|stop (?:following|obeying)|pay no attention to) "
)
_SOME = r"(?:(?:all|any|every|each|of|the|these|those|your|my|our) ){0,4}"
_EARLIER = r"(?:previous|prior|earlier|preceding|above|foregoing|original|initial|system|developer)"
_ORDERS = r"(?:instructions?|prompts?|rules?|directives?|guidelines?|guidance|commands?|constraints?|programming)\b"
_KEYS = (
    r"(?:api(?: |[-_])?keys?|credentials?|passwords?|passphrases?|secrets?|tokens?|private keys?|ssh keys?"
    r"|environment variables?|\.env|system prompt|cookies)\b(?! (?:reset|manager|policy|page|form|field))"
)
_AWAY = (
    r"(?:https?://|webhook|pastebin|[\w.]{1,40}@[\w.]"
    r"|(?:this|following|my|external|remote) (?:address|url|server|endpoint|host|site|domain)\b)"
)
_SAFETY = (
    r"(?:(?:safety|security|ethical|moral|moderation|content|alignment) (?:WORD )?(?:rules?|filters?|guidelines?"
    r"|polic(?:y|ies)|measures?|checks?|restrictions?|protocols?|mechanisms?|limits?|constraints?|training)\b"
    r"|guardrails?\b|safeguards?\b)"
)
_UNBOUND = (
    r"(?:jailbroken|unrestricted|uncensored|unfiltered|developer mode|god mode|dan mode|do anything now|no longer bound"
    r"|(?:without|free of|free from) (?:any |all )?(?:restrictions|limitations|filters|guardrails|rules|ethics))\b"
)

# Before each phrase are words of which every match contains at least one; most texts contain none and skip the pattern.
# In a phrase a space matches a gap and WORD matches any word; the text is in lower case.
_PHRASES = (
    (
        InjectionKind.INSTRUCTION_OVERRIDE,
        ("ignor", "disregard", "forget", "overrid", "overrule", "discard", "neglect", "follow", "obey", "attention"),
        (
            rf"{_DROP}(?:{_SOME}{_EARLIER} (?:WORD ){{0,2}}{_ORDERS}"
            rf"|(?:(?:all|any|of) ){{0,2}}your (?:WORD ){{0,2}}{_ORDERS}"
            rf"|(?:the|these|those|all|any) (?:WORD )?{_ORDERS} (?:above|before|so far|you were given)\b"
            r"|(?:everything|anything|all|what|whatever) (?:(?:that|of|the|was|is|has|have|been|you|were|i|we) ){0,4}"
            r"(?:above|before|previously|prior|told|instructed)\b)"
        ),
    ),
    (
        InjectionKind.INSTRUCTION_OVERRIDE,
        ("void", "cancel", "revoked", "obsolete", "superseded", "overridden", "longer"),
        (
            rf"(?:previous|prior|above|earlier|your) {_ORDERS} (?:are|is|were|have been|has been) (?:now )?"
            r"(?:void|cancell?ed|revoked|obsolete|superseded|overridden|no longer)\b"
        ),
    ),
    (
        InjectionKind.INSTRUCTION_OVERRIDE,
        ("new",),
        r"(?:here are|these are|follow|obey) (?:your|the|my|these) new (?:system )?(?:instructions?|prompt|rules)\b",
    ),
    (
        InjectionKind.INSTRUCTION_OVERRIDE,
        ("<|", "inst]", "sys>>"),
        r"<\|(?:im_start|im_end|system|user|assistant|endoftext|start_header_id|eot_id)\|>|\[/?inst\]|<</?sys>>",
    ),
    (
        InjectionKind.SECRETS_EXFILTRATION,
        ("api", "credential", "pass", "secret", "token", "private", "ssh", "environment", ".env", "system", "cookie"),
        (
            r"(?:send|post|upload|forward|e-?mail|exfiltrate|transmit|leak|paste|append|include|copy|submit|put) "
            rf"(?:WORD ){{0,6}}?{_KEYS}[^.!?]{{0,60}}?\b(?:to|into|via) (?:WORD ){{0,3}}?{_AWAY}"
        ),
    ),
    (
        InjectionKind.SECRETS_EXFILTRATION,
        ("system", "hidden", "initial", "secret", "developer", "original"),
        (
            r"(?:reveal|print|show|repeat|output|leak|display|tell|give|recite|disclose|dump|send) "
            r"(?:(?:me|us|them|out|back|to|user|all|of|verbatim|exactly) ){0,4}(?:your|the) "
            r"(?:(?:full|entire|complete|whole|exact|own) ){0,2}(?:system|hidden|initial|secret|developer|original) "
            r"(?:prompt|instructions?|message)\b"
        ),
    ),
    (
        InjectionKind.SECRETS_EXFILTRATION,
        ("curl", "wget"),
        r"(?:curl|wget)\b[\s\S]{0,120}?(?:\$\{?\w{0,40}(?:key|token|secret|password)|\.env\b|\.ssh/|\.aws/)",
    ),
    (
        InjectionKind.SECRETS_EXFILTRATION,
        (".ssh/id_", "id_rsa", ".aws/credentials", ".netrc", "etc/shadow"),
        (
            r"(?:cat|read|open|print|send|upload|include) "
            r"[^\s]{0,40}(?:\.ssh/id_|id_rsa\b|\.aws/credentials|\.netrc\b|etc/shadow)"
        ),
    ),
    (
        InjectionKind.SAFETY_BYPASS,
        ("safety", "security", "ethical", "moral", "moderation", "content", "alignment", "guardrail", "safeguard"),
        (
            r"(?:bypass|disabl|turn off|switch off|ignor|overrid|circumvent|remov|deactivat|evad|disregard|drop)"
            rf"(?:e|ing)? (?:(?:all|any|every|of|your|the|its|our|built-in) ){{0,3}}{_SAFETY}"
        ),
    ),
    (
        InjectionKind.SAFETY_BYPASS,
        ("jailbroken", "unrestricted", "uncensored", "unfiltered", "mode", "anything", "bound", "without", "free"),
        (
            r"(?:you are|you're|you will be|act as|acting as|pretend|behave as|enter|enable|activate|switch to) "
            rf"(?:WORD ){{0,4}}{_UNBOUND}"
        ),
    ),
    (
        InjectionKind.SAFETY_BYPASS,
        ("you",),
        r"you have no (?:WORD )?(?:restrictions|content policy|limits|guidelines|guardrails)\b",
    ),
    (
        InjectionKind.SAFETY_BYPASS,
        ("tell", "inform", "alert", "notify", "warn", "let"),
        (
            r"(?:do not|don['’]t|never) (?:tell|inform|alert|notify|warn|let) (?:the |your )?"
            r"(?:user|owner|human|operator)s? (?:know )?(?:about|of) (?:this|these|it)\b"
        ),
    ),
)
_PATTERNS = tuple((kind, words, phrase.replace(" ", _GAP).replace("WORD", _WORD)) for kind, words, phrase in _PHRASES)
# "Never reveal your system prompt" is a rule of the owner; "do not hesitate to…" is not.
_REFUSAL = re.compile(
    r"(?:\bnever|\bnot|n['’]t|\bcannot|\brefuses? to|\bwithout|\bnobody|\bno one)"
    r"(?:(?: +(?!and\b|but\b|then\b|only\b|just\b|hesitate\b|fail\b|forget\b)[\w'’]{1,20}){0,3} +|\s+)$"
)
_LOOK_BACK = 80

# The flags of England, Scotland and Wales are the only legitimate use of tag characters.
_FLAG = "|".join("".join(chr(0xE0000 + ord(sign)) for sign in f"gb{name}\x7f") for name in ("eng", "sct", "wls"))
_SUSPECT = re.compile("[\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufe00-\ufe0f\ufeff\U000e0000-\U000e01ef]")
_UNSEEN = (
    rf"(?P<flag>(?<=\U0001f3f4)(?:{_FLAG}))"
    "|(?P<hidden_text>[\U000e0000-\U000e007f]+|[\ufe00-\ufe0f\U000e0100-\U000e01ef]{2,})"
    "|(?P<bidi_control>[\u202a-\u202e\u2066-\u2069]+)"
    "|(?P<invisible>[\u200b\u2060-\u2064\u180e\ufeff]+"
    # Joiners and direction marks belong to other scripts and to emoji; between Latin letters they only hide text.
    "|(?<=[a-zA-Z])[\u200c-\u200f]+(?=[a-zA-Z]))"
)


def scan_injections(text: str) -> tuple[InjectionHit, ...]:
    """Find every suspicious passage of a text, in order; invisible characters do not hide phrases."""
    if text.isascii() or not _SUSPECT.search(text):
        hits = list(find_phrases(text))
    else:
        hits = list(find_phrases(_SUSPECT.sub("", text)))
        seen = [at for at, sign in enumerate(text) if not _SUSPECT.match(sign)] if hits else []
        hits = [InjectionHit(kind=hit.kind, start=seen[hit.start], end=seen[hit.end - 1] + 1) for hit in hits]
        hits += find_invisible(text)
    return tuple(sorted(hits, key=lambda hit: (hit.start, hit.end, hit.kind.value)))


def find_phrases(text: str) -> Iterator[InjectionHit]:
    """Find the phrases of known attacks, except where the sentence forbids them."""
    lower = lower_in_place(text)
    for kind, words, pattern in _PATTERNS:
        for match in compile_pattern(pattern).finditer(lower) if any(word in lower for word in words) else ():
            before = lower[max(0, match.start() - _LOOK_BACK) : match.start()]
            if not before[-1:].isalnum() and not _REFUSAL.search(before):
                yield InjectionHit(kind=kind, start=match.start(), end=match.end())


def find_invisible(text: str) -> Iterator[InjectionHit]:
    """Find invisible characters, and characters that change the order in which text is shown."""
    end = 1 if text.startswith("\ufeff") else 0
    for suspect in _SUSPECT.finditer(text, end):
        match = compile_pattern(_UNSEEN).match(text, suspect.start()) if suspect.start() >= end else None
        if match and match.lastgroup:
            end = match.end()
            if match.lastgroup != "flag":
                yield InjectionHit(kind=InjectionKind(match.lastgroup), start=match.start(), end=end)


def label_scan(text: str) -> tuple[str, str]:
    """Scan a text, comments included; return a warning line for the prompt and a note for the verdict."""
    places: dict[str, list[int]] = {}
    for hit in scan_injections(text):
        places.setdefault(str(hit.kind), []).append(text.count("\n", 0, hit.start) + 1)
    if not places:
        return "", ""
    findings = ", ".join(f"{kind} in line {lines[0]:,}" for kind, lines in sorted(places.items()))
    return fill_form("scanned", (findings,)) + "\n", f"a scan found {findings}"
