# SPDX-License-Identifier: Apache-2.0
"""Names of modules in earlier releases, which had packages where this one has modules."""
from __future__ import annotations

import sys
from types import ModuleType
from typing import Optional


def also(name: str, *parts: str, of: Optional[ModuleType] = None) -> None:
    """Have the module be its former parts, too: tools is tools.base. of: another module that is."""
    module = of or sys.modules[name]
    for part in parts:
        setattr(sys.modules[name], part, module)
        sys.modules[name + "." + part] = sys.modules["rlm." + name.partition(".")[2] + "." + part] = module
