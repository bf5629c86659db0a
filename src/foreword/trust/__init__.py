"""Who may see what: one clearance per turn, decided before anything is read."""

from foreword.trust.clearance import Clearance, resolve

__all__ = ["Clearance", "resolve"]
