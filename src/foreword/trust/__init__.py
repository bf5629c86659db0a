"""Who may see what: one clearance per turn, decided before anything is read."""

from foreword.trust.clearance import Audience, Clearance, find_audience, find_situation, has_company, resolve

__all__ = ["Audience", "Clearance", "find_audience", "find_situation", "has_company", "resolve"]
