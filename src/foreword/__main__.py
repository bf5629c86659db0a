"""`python -m foreword` is the `foreword` command."""

import sys

from foreword.cli.main import main

sys.exit(main())
