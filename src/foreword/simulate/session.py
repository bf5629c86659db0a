"""A scripted session call by call: what is true at each, and what was said before it."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import pairwise

from foreword.frozen import frozen
from foreword.simulate.scenario import LOOP, Part, Scenario, Words, list_times
from foreword.words import Policy


@frozen(eq=True)
class Told:
    """A section as it is true before a call."""

    part: Part
    text: str
    policy: Policy = Policy.AUTO


@frozen(eq=True)
class Said:
    """One thing in a conversation; a person's words begin a turn, and their tail is the design's affair."""

    kind: str
    """user, answer, call or result."""
    text: str
    turn: int
    message: int
    """The number of the message it belongs to."""


@frozen
class Call:
    """One call of the model."""

    number: int
    turn: int
    first: bool
    """Whether it is the first of its turn."""
    at: datetime
    after: float
    """Seconds until the next call, which only an oracle may look at; infinite for the last."""
    sections: tuple[Told, ...]
    said: tuple[Said, ...]
    """The conversation up to this call; the newest message of the person is in it."""
    folded: bool = False
    """Whether the conversation was folded before this turn."""


def play(scenario: Scenario) -> list[Call]:
    """Play a scenario, and list its calls."""
    calls = list(play_turns(scenario))
    times = [call.at for call in calls]
    gaps = [(later - earlier).total_seconds() for earlier, later in pairwise(times)]
    return [
        Call(
            number=call.number, turn=call.turn, first=call.first, at=call.at, after=after, sections=call.sections,
            said=call.said, folded=call.folded,
        )
        for call, after in zip(calls, [*gaps, float("inf")], strict=True)
    ]  # fmt: skip


def play_turns(scenario: Scenario) -> Iterator[Call]:
    """Play turn by turn."""
    words, said, number, message = Words(scenario.seed), [], 0, 0
    for turn, begin in enumerate(list_times(scenario), 1):
        folded = turn in scenario.folded
        if folded:
            said = [
                Said(kind="summary", text=words.write(f"summary {turn}", 300), turn=0, message=0),
                Said(kind="answer", text="Understood.", turn=0, message=1),
            ]
            message = 2
        sections = tuple(list_sections(scenario, words, turn))
        said.append(
            Said(kind="user", text=words.write(f"message {turn}", scenario.message), turn=turn, message=message)
        )
        steps = scenario.list_steps(turn)
        for step in range(len(steps) + 1):
            yield Call(
                number=number, turn=turn, first=step == 0, at=begin + timedelta(seconds=LOOP * step), after=0.0,
                sections=sections, said=tuple(said), folded=folded and step == 0,
            )  # fmt: skip
            number, message = number + 1, message + 1
            if step == len(steps):
                text = words.write(f"answer {turn}", scenario.answer)
                said.append(Said(kind="answer", text=text, turn=turn, message=message))
                message += 1
                continue
            for each in range(steps[step]):
                name = f"call {turn} {step} {each}"
                said.append(Said(kind="call", text=words.write(name, 30), turn=turn, message=message))
            message += 1
            for each in range(steps[step]):
                name = f"result {turn} {step} {each}"
                said.append(Said(kind="result", text=words.write(name, scenario.result), turn=turn, message=message))


def list_sections(scenario: Scenario, words: Words, turn: int) -> Iterator[Told]:
    """List the sections as they are true in a turn."""
    for part in scenario.sections:
        edits = [edit for edit in scenario.edits if edit.section == part.id and edit.turn <= turn]
        if part.from_turn > turn or (edits and edits[-1].remove):
            continue
        text = words.write(part.id, part.tokens)
        for edit in edits:
            text = change(text, words.write(f"{part.id} {edit.turn}", edit.grow))
        yield Told(part=part, text=text, policy=edits[-1].policy if edits else Policy.AUTO)


def change(text: str, more: str) -> str:
    """Change a text as people do: a line in the middle goes, and some are added there."""
    lines = text.split("\n")
    middle = len(lines) // 2
    return "\n".join([*lines[:middle], *more.split("\n"), *lines[middle + 1 :]])
