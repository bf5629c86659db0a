"""Who may see what: one clearance per turn, decided before anything is read."""

from foreword.trust.clearance import Clearance, find_situation, has_company, resolve

__all__ = ["Clearance", "find_situation", "has_company", "resolve"]
