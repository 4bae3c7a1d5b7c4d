# SPDX-License-Identifier: Apache-2.0
"""The former name of snipara_sandbox, in releases before 2: an alias of that package and its modules."""
from __future__ import annotations

import sys
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from types import ModuleType
from typing import TYPE_CHECKING, Any, Optional

import snipara_sandbox

if TYPE_CHECKING:
    from snipara_sandbox import *  # noqa: F401, F403


class _Same(MetaPathFinder, Loader):
    """Finds rlm.X as snipara_sandbox.X."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Optional[ModuleSpec]:
        return spec_from_loader(name, self) if name.startswith("rlm.") else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = import_module("snipara_sandbox" + spec.name[3:])
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec  # the import system has set another one


sys.meta_path.insert(0, _Same())
sys.modules[__name__] = snipara_sandbox
