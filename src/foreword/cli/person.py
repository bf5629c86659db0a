"""What `foreword export --user` does: a person is given what is kept of them."""

import sys
from argparse import Namespace
from typing import TYPE_CHECKING

from foreword.cli.output import count, print_json, warn
from foreword.cli.place import open_here
from foreword.errors import InputError

if TYPE_CHECKING:
    from typing import TextIO

    from foreword.erasure.giving import Gift
    from foreword.erasure.house import House
    from foreword.words import Trust
    from foreword.workspace import Workspace

OTHERS = ("prune", "since", "until", "reader", "room")  # what is about events alone


def hand_over(args: Namespace) -> int:
    """Write all that is kept of a person, and say how much it is."""
    from foreword.cli.export import refuse_taken
    from foreword.erasure.house import find_house
    from foreword.events.export import draft

    if given := [f"--{name}" for name in OTHERS if getattr(args, name)]:
        raise InputError(f"--user gives everything of a person, and takes no {' and no '.join(given)}")
    with open_here(args) as workspace:
        house, level = find_house(workspace), find_level(args, workspace)
    if args.file == "-":
        gift = write(house, args.user, level, sys.stdout)
    else:
        refuse_taken(args.file)
        with draft(args.file) as file:
            gift = write(house, args.user, level, file)
        show(args, gift)
    if gift.above:
        one = gift.above == 1
        what, verb, it = ("thing that was", "is", "it") if one else ("things that were", "are", "them")
        warn(f"{gift.above:,} {what} learned above {level} {verb} not in it; to give {it} all the same: --trust full")
    return 0


def find_level(args: Namespace, workspace: "Workspace") -> "Trust":
    """Find up to which clearance a person is given what was learned: what they may see now, or what the owner says."""
    from foreword.trust.clearance import resolve
    from foreword.turn import Turn
    from foreword.words import Trust

    if args.trust:
        return Trust[args.trust.upper()]
    return resolve(Turn(user=args.user, situation="dm"), workspace.config).level


def write(house: "House", user: str, level: "Trust", file: "TextIO") -> "Gift":
    """Write what there is of a person."""
    from foreword.erasure.giving import give

    return give(house, user, level, file)


def show(args: Namespace, gift: "Gift") -> None:
    """Say how much was written."""
    if args.json:
        print_json({"file": args.file, "user": gift.user, "given": gift.given, "above": gift.above})
    else:
        print(f"exported: {count(sum(gift.given.values()), 'thing')} of {gift.user}")
