# SPDX-License-Identifier: Apache-2.0
"""The MCP server: `snipara-sandbox mcp-serve`."""
from __future__ import annotations

from typing import NoReturn

from ._old import also


def main() -> NoReturn:
    """Execute the server, on standard input and output."""
    from .__main__ import become
    become("snipara-sandbox", "mcp-serve")


also(__name__, "server")
