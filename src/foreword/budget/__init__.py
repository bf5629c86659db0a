"""The budget: every slot ends in one verdict, with a reason."""

from foreword.budget.fit import Fit, FittedRun, fit
from foreword.budget.verdict import Fitted, Scale

__all__ = ["Fit", "Fitted", "FittedRun", "Scale", "fit"]
