# SPDX-License-Identifier: Apache-2.0
"""The commands `snipara-sandbox` and `rlm` of an installed wheel: the program that came with it takes over."""
from __future__ import annotations

import os
import sys
from typing import NoReturn


def main() -> NoReturn:
    """Become the program. Exit status 127: it did not come with this package."""
    name = "rlm" if os.path.basename(sys.argv[0]) == "rlm" else "snipara-sandbox"
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "programs", "bin", "snipara-sandbox")
    try:
        os.execv(path, [name, *sys.argv[1:]])
    except OSError as error:
        print("{}: {}: {}".format(name, path, error.strerror), file=sys.stderr)
        sys.exit(127)


if __name__ == "__main__":
    main()
