"""A figure: what was measured, what was aimed at, and what the baseline took in the same run."""

from foreword.frozen import frozen


@frozen(eq=True)
class Figure:
    """One measured value in its unit; the aim is an upper bound."""

    name: str
    value: float
    unit: str
    aim: float | None = None
    baseline: str = ""

    @property
    def verdict(self) -> str:
        """Whether the aim was met."""
        if self.aim is None:
            return ""
        return "met" if self.value <= self.aim else "missed"

    def show(self) -> str:
        """Show it on a line, and its baseline below."""
        aim = f"aim ≤ {self.aim:g} {self.unit}: {self.verdict}" if self.aim is not None else ""
        value = f"{self.value:,}" if isinstance(self.value, int) else f"{self.value:,.2f}"
        line = f"{self.name:44} {value:>9} {self.unit:3} {aim}".rstrip()
        return f"{line}\n{'':44} beside {self.baseline}" if self.baseline else line
