"""Giving a person what is kept of them, as JSON Lines: first what it is, then a line for each thing."""

import json
from collections import Counter
from typing import TextIO

from foreword.erasure.forgetting import check_known, place
from foreword.erasure.holding import open_bases
from foreword.erasure.holdings import HOLDINGS
from foreword.erasure.house import House
from foreword.erasure.knowing import know
from foreword.frozen import frozen
from foreword.words import Trust

SCHEMA = "foreword-person/1"


@frozen(eq=True)
class Gift:
    """What was given, and what was not."""

    user: str
    given: dict[str, int]
    """How many of each holding."""
    above: int = 0
    """What was learned above the clearance that the person has now; only the owner is told how much that is."""


def give(house: House, user: str, level: Trust, file: TextIO) -> Gift:
    """Write everything of a person that was learned at their clearance or below it."""
    given: Counter[str] = Counter()
    above = 0
    with open_bases(house.root, house.folder, house.config) as bases:
        check_known(house, bases, user)
        person = know(bases, user)
        write(file, {"schema": SCHEMA, "user": user, "clearance": str(level)})
        for holding in HOLDINGS:
            for one in holding.give(bases, person):
                if one.trust > level:
                    above += 1
                    continue
                write(file, {"holding": holding.name, "where": place(holding, user), "row": dict(one.row)})
                given[holding.name] += 1
    return Gift(user=user, given=dict(given), above=above)


def write(file: TextIO, value: object) -> None:
    """Write a line."""
    file.write(json.dumps(value, ensure_ascii=False) + "\n")
