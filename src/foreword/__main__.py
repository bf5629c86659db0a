"""`python -m foreword` is the `foreword` command."""

import sys

from foreword.cli import main

sys.exit(main())
