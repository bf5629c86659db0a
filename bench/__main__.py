"""Every figure of the documentation: the same as `foreword bench`."""

import sys

from foreword.cli import main

if __name__ == "__main__":
    sys.exit(main(["bench", *sys.argv[1:]]))
