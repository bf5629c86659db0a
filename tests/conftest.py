"""Counts for property tests: small and always the same in the suite, full ones in `make soak`."""

import os

from hypothesis import HealthCheck, Phase, settings

# A generated workspace is large, and each example writes it to the disk.
CALM = {"deadline": None, "suppress_health_check": list(HealthCheck)}

# A failure shows its first example; `make soak` takes the time to find the smallest.
QUICK = {"derandomize": True, "database": None, "phases": (Phase.explicit, Phase.generate)}

settings.register_profile("suite", max_examples=30, **QUICK, **CALM)
settings.register_profile("soak", max_examples=400, **CALM)
settings.load_profile("soak" if os.environ.get("FOREWORD_SOAK") else "suite")
