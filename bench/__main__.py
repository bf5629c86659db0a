"""Prints every figure of the documentation, like `foreword bench`."""

import sys

from foreword.cli.main import main

if __name__ == "__main__":
    sys.exit(main(["bench", *sys.argv[1:]]))
