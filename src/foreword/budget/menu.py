"""The memory menu: written by the budget, since only the budget knows what did not fit."""

from collections.abc import Iterable
from dataclasses import replace

from foreword.budget.share import Wish, can_list, drop, settle, wish
from foreword.budget.verdict import Fitted, Terms, leave_out
from foreword.sources import Section
from foreword.sources.section import write_line
from foreword.words import Verdict


def index(fitted: Fitted, menu: Section | None) -> Fitted:
    """Turn a loss into a line of the menu where there is one and the slot may be on it."""
    if fitted.verdict is not Verdict.DROPPED or not can_list(fitted.item) or menu is None:
        return fitted
    return leave_out(fitted.item, fitted.wanted, Verdict.INDEXED, f"{fitted.reason}; on the menu")


def index_always(one: Wish, menu: Section | None, terms: Terms) -> Fitted:
    """Put a section on the menu that belongs nowhere else."""
    if menu is None and one.wanted <= one.stub:
        return one.whole
    if menu is None:
        return drop(one, one.base, "is read on demand, and the turn has no tool for that", terms)
    return leave_out(one.section, one.wanted, Verdict.INDEXED, "on the menu, to be read on demand")


def write(menu: Section, listed: Iterable[Section], terms: Terms) -> Section:
    """Write the menu's text: files of the workspace, then the stores, then how to load."""
    files = sorted(listed, key=lambda section: section.path)
    priced = [write_line(file.path, terms.meter.count(file.text), file.description) for file in files]
    lines = [*priced, *menu.lines]
    return replace(menu, text="\n".join([*lines, "", menu.text]) if lines else "", lines=tuple(lines))


def fit_menu(menu: Section, closing: str, room: int, terms: Terms) -> Fitted:
    """Fit the written menu into what was reserved for it; if lines are cut, how to load still stands at its end."""
    if not menu.text:
        return leave_out(menu, 0, Verdict.DROPPED if menu.note else Verdict.ABSENT, "there is nothing to list")
    (one,) = wish([menu], terms)
    if one.wanted <= room:
        return one.whole
    why = "the menu's share is full"
    lines = replace(menu, text="\n".join(menu.lines))
    (part,) = wish([lines], terms)
    cut = settle(part, room - terms.meter.count(f"\n\n{closing}"), why, terms)
    if cut.verdict is not Verdict.SHORTENED:
        return drop(one, room, f"{why}; wants {one.wanted:,}, and its part is {max(room, 0):,}", terms)
    body = f"{cut.body}\n\n{closing}"
    return replace(cut, item=menu, body=body, wanted=one.wanted, tokens=terms.scale.weigh(menu, body))
