"""`foreword cache simulate --recorded`: captured requests, played against a provider's rules and prices."""

from argparse import Namespace
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from foreword.cli.output import count, print_json, warn

if TYPE_CHECKING:
    from foreword.caching.cache import Counted
    from foreword.config.schema import ModelOverride
    from foreword.simulate.recorded import Replayed

NAMES = ("read", "write", "fresh")


def show_recorded(args: Namespace, overrides: "Mapping[str, ModelOverride]") -> int:
    """Play a recording by the rules of its own models, or of each that is named."""
    from foreword.cli.files import read_text
    from foreword.cli.simulation import refuse_unknown
    from foreword.simulate.recorded import play_recorded, read_recorded

    for name in args.model or ():
        refuse_unknown(name, overrides)
    recorded = read_recorded(read_text(args.recorded).splitlines(), args.recorded)
    done = []
    for model in dict.fromkeys(args.model or [""]):
        played = play_recorded(recorded, overrides, model)
        note(played)
        if args.json:
            done.append(write(played, model))
        else:
            show(played, model or ", ".join(dict.fromkeys(one.model for one in recorded)), calls=args.calls)
    if args.json:
        print_json({"recorded": args.recorded, "plays": done})
    return 0


def note(played: "Replayed") -> None:
    """Warn where figures say less than they seem to."""
    if played.unmarked:
        warn("the requests have no cache marks, and their provider reads nothing without one")
    for model in dict.fromkeys(one.model for one in played.asked if one.prices is None):
        warn(f"no price of {model} is known; give input_usd under models in foreword.yaml for money")


def show(played: "Replayed", title: str, *, calls: bool) -> None:
    """Show the calls of a recording, and their sums."""
    from foreword.cli.simulation import name_life, show_blame
    from foreword.cli.table import draw_with_notes, find_width, make_table

    told = any(one is not None for one in played.reported)
    right = ("call", "read", "written", "life", "neither", *(("reported",) if told else ()), "USD")
    table, notes = make_table(right[0], "time", *right[1:], right=right), [""]
    rows = zip(played.asked, played.counted, played.reported, played.accounts, played.usd, strict=True)
    for number, (asked, used, said, account, usd) in enumerate(rows, 1):
        if calls or account.blame:
            life = name_life(used, asked.facts)
            figures = [*show_used(used, life), *([" / ".join(show_counted(said))] if told else []), show_amount(usd)]
            table.add_row(f"{number:,}", f"{asked.at:%m-%d %H:%M:%S}", *figures)
            notes.append(show_blame(account.blame) if account.blame else "")
    used, said = add(played.counted), add(played.reported)
    sums = [
        *show_used(used, ""),
        *([" / ".join(show_counted(said))] if told else []),
        show_amount(add_money(played.usd)),
    ]
    table.add_row("all", "", *sums)
    share = used.read / used.total if used.total else 0.0
    print(f"{title}: {count(len(played.asked), 'request')}, {share:.1%} of {used.total:,} tokens read by the rules")
    draw_with_notes(table, [*notes, ""], find_width())
    print()


def show_counted(counted: "Counted | None") -> list[str]:
    """Show the tokens of a call: read, written and neither."""
    return ["–"] if counted is None else [f"{getattr(counted, name):,}" for name in NAMES]


def show_used(used: "Counted", life: str) -> list[str]:
    """Show the tokens of a call by the rules, and for how long is kept what was written."""
    read, written, fresh = show_counted(used)
    return [read, written, life, fresh]


def show_amount(usd: float | None) -> str:
    """Show an amount, if it is known."""
    return "–" if usd is None else f"{usd:,.4f}"


def add(counted: "Sequence[Counted | None]") -> "Counted":
    """Add up the tokens of calls."""
    from foreword.caching.cache import Counted

    known = [one for one in counted if one is not None]
    return Counted(**{name: sum(getattr(one, name) for one in known) for name in (*NAMES, "hour")})


def add_money(amounts: Sequence[float | None]) -> float | None:
    """Add amounts up; one that is not known leaves the sum unknown."""
    known = [amount for amount in amounts if amount is not None]
    return sum(known) if len(known) == len(amounts) else None


def write(played: "Replayed", model: str) -> dict[str, Any]:
    """Write a recording that was played as JSON-ready values."""
    from foreword.ledger.telling import tell_account, tell_counted

    rows = zip(played.asked, played.counted, played.reported, played.accounts, played.usd, strict=True)
    return {
        "model": model or None,
        "sum": {"predicted": tell_counted(add(played.counted)), "reported": tell_counted(add(played.reported)),
                "usd": add_money(played.usd)},
        "calls": [
            {
                "at": asked.at.isoformat(),
                "model": asked.model,
                "predicted": tell_counted(used),
                "reported": None if said is None else tell_counted(said),
                "usd": usd,
                "blame": tell_account(account)["blame"],
            }
            for asked, used, said, account, usd in rows
        ],
    }  # fmt: skip
