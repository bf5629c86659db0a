"""Every golden, by name."""

import golden_coop
import golden_limits
import golden_sections

CASES = {case.name: case for case in (*golden_sections.CASES, *golden_limits.CASES, *golden_coop.CASES)}
