# SPDX-License-Identifier: Apache-2.0
"""Names of modules in earlier releases, which had packages in place of these modules."""
from __future__ import annotations

import sys
from types import ModuleType
from typing import Optional


def also(name: str, *parts: str, of: Optional[ModuleType] = None) -> None:
    """Make parts of a former package importable: tools is also tools.base. of: another module to use."""
    module = of or sys.modules[name]
    for part in parts:
        setattr(sys.modules[name], part, module)
        sys.modules[name + "." + part] = sys.modules["rlm." + name.partition(".")[2] + "." + part] = module
