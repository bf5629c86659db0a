"""Every golden, by name."""

import golden_characters
import golden_coop
import golden_limits
import golden_memory
import golden_moltis
import golden_nova
import golden_osa
import golden_sections
import golden_spec010

MODULES = (
    golden_sections,
    golden_limits,
    golden_memory,
    golden_coop,
    golden_osa,
    golden_moltis,
    golden_characters,
    golden_spec010,
    golden_nova,
)
CASES = {case.name: case for module in MODULES for case in module.CASES}
