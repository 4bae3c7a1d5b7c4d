# SPDX-License-Identifier: Apache-2.0
"""Runs and sessions in a browser: `snipara-sandbox visualize`."""
from __future__ import annotations

from typing import NoReturn

from ._old import also


def main(log_dir: str = "./logs", port: int = 8501) -> NoReturn:
    """Execute the program that shows the records of this folder, on this port."""
    from .__main__ import become
    become("snipara-sandbox", "visualize", "--dir", log_dir, "--port", str(port))


also(__name__, "app")
