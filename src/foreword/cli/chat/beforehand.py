"""What is wrong before anything is said: a model that cannot answer or is not known, and files of no use."""

from collections.abc import Iterator
from contextlib import suppress

from foreword.cli.chat.clean import clean_line
from foreword.cli.chat.talk import Talk
from foreword.cli.equipment import check_provider
from foreword.cli.output import warn
from foreword.cli.turns import find_hints, find_losses
from foreword.config.environment import Secrets
from foreword.errors import ForewordError


def warn_anew(talk: Talk, *, files: bool = True) -> None:
    """Warn about what is wrong now and was not wrong a moment ago, so that everything is told once."""
    found = dict.fromkeys(find_doubts(talk, files=files))
    for doubt in found:
        if doubt not in talk.told:
            warn(clean_line(doubt))
    talk.told = frozenset(found)


def find_doubts(talk: Talk, *, files: bool) -> Iterator[str]:
    """Find what can be known before a turn: of its model, and of the files that it may see, if they are asked about."""
    config, model = talk.gateway.workspace.config, talk.choose().model
    checks = [*check_provider("model", model, config, Secrets(environ=talk.environ, dotenv={}))]
    for check in checks:
        if check.level != "ok":
            yield f"{model} cannot answer: {check.message} ({check.remedy})"
    reached = all(check.level != "error" for check in checks)
    with suppress(ForewordError):  # what is wrong with the whole prompt is told by the turn itself
        assembly = talk.look()
        if reached and (assumed := assembly.terms.meter.facts.assumed):
            yield assumed
        yield from find_losses(assembly) if files else ()
        yield from find_hints(assembly) if files else ()
