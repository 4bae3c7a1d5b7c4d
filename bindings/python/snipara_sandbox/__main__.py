# SPDX-License-Identifier: Apache-2.0
"""The commands `snipara-sandbox` and `rlm` of an installed wheel: they execute the program in the wheel."""
from __future__ import annotations

import os
import sys
from typing import NoReturn


def become(name: str, *args: str) -> NoReturn:
    """Execute the program of this package, else the installed one. Exit status 127: not found."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "programs", "bin", "snipara-sandbox")
    try:
        os.execvp(path if os.path.exists(path) else "snipara-sandbox", [name, *args])
    except OSError as error:
        print("{}: {}: {}".format(name, path, error.strerror), file=sys.stderr)
        sys.exit(127)


def main() -> NoReturn:
    """Execute the program with the arguments of this one."""
    become("rlm" if os.path.basename(sys.argv[0]) == "rlm" else "snipara-sandbox", *sys.argv[1:])


if __name__ == "__main__":
    main()
