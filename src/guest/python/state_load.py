# SPDX-License-Identifier: Apache-2.0
"""Restores the variables of a session, saved by state.py."""

import builtins

# A private copy, as in driver.py.
__builtins__ = dict(vars(builtins))  # type: ignore[assignment]

import contextlib
import importlib
import io
import mmap
import pickle
import resource
import signal
import sys
from time import monotonic
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

from state_ambient import PATCHES, Baseline, restore_descriptors, restore_options, restore_settings, restore_sources
from state_ambient import write_ambient
from state_classes import make_class
from state_modules import STATE_OF, write_module
from state_names import BY_NAME, CLOUD, STATE, _cloud_modules
from state_objects import work
from state_stream import _CONTENT, _LENGTH, _MAGIC, _MAGIC_OLD, BUFFERS_MAX, KEPT_MAX, TEXT_BIT, Arriving, Source, Torn
from state_stream import limit_data, writable
from state_texts import NAME_MAX, ROOT_PART, TICK_S, Refused, Slow, clean, why_of

FAILED_MAX = 500  # named failures; further ones are counted


class Item:
    """A group of variables as read; its memory is freed when it is restored."""

    def __init__(self, names: List[str], data: Any, buffers: List[Any]) -> None:
        """data: a file. buffers: of texts, those."""
        self.names = names
        self.data = data
        self.buffers = [one for one in buffers if type(one) is not str]
        self.texts = [one for one in buffers if type(one) is str]
        self.why: Dict[str, str] = {}


def names_of(head: Dict[str, Any]) -> List[str]:
    meta = head["meta"]
    names = list(meta.get("names", ())) + ["class " + c for c in meta.get("classes", ())]
    return names or [head["name"]]


class Unpickler(pickle.Unpickler):
    """Resolves our names, and the namespace."""

    def __init__(self, loader: "Loader", data: Any, buffers: Any, texts: Sequence[str]) -> None:
        super().__init__(data, buffers=buffers)
        self._texts = texts
        self._names = loader.names
        self._late: Dict[Any, Any] = {}

    def find_class(self, module: str, name: str) -> Any:
        if module == STATE:
            return BY_NAME[name]
        if module.startswith(CLOUD):
            return getattr(_cloud_modules[module], name)
        if module == "__main__":
            raise Refused("it refers to {} by name".format(clean(name, 100)))
        return super().find_class(module, name)

    def persistent_load(self, ident: Any) -> Any:
        if type(ident) is tuple and ident[0] == "text":
            return self._texts[ident[1]]
        if type(ident) is tuple:
            return self._late.setdefault(ident, {} if ident[1] == "dict" else set())
        return {
            "names": self._names,
            "path": sys.path,
            "argv": sys.argv,
            "modules": sys.modules,
            "builtins": vars(builtins),
            "argparse.SUPPRESS": importlib.import_module("argparse").SUPPRESS,
        }[ident]


class Loader:
    """Reads a part, and restores it into one namespace."""

    def __init__(self, names: Dict[Any, Any], room: Optional[int] = None, module: Any = None) -> None:
        """room: bytes of memory for variables; None: unlimited. module: _snp, or None: it uses more memory."""
        self.names = names
        self._room = room
        self._joined = getattr(module, "joined", "".join)
        self.settings: Dict[str, Any] = {}
        self.failed: List[Dict[str, str]] = []
        self._source: Any = None
        self._ambient: Dict[str, Any] = {}
        self._refs: Dict[str, Any] = {}
        self._classes: List[Tuple[str, bytes]] = []  # not made yet
        self._pending: List[Item] = []  # not restored yet
        self.half_failed: Dict[str, BaseException] = {}  # attributes of classes
        self._errors: Dict[str, Dict[str, str]] = {}
        self._moved: Optional[Tuple[str, str]] = None
        self._limit: Optional[float] = None
        self._deadline = 0.0

    # Reading ----------------------------------------------------------------------

    def _has_room(self, head: Dict[str, Any]) -> bool:
        """Whether there is room for an item; the interpreter's own items come first, and are small."""
        if self._room is None or head["name"].startswith(":"):
            return True
        if head["size"] <= self._room:
            self._room -= head["size"]
            return True
        self._fail_all(names_of(head), why_of(MemoryError()))
        return False

    def _read_item(self, head: Dict[str, Any]) -> Item:
        """Its buffers, and its pickle if it is small; a large one is read while it is restored."""
        source = self._source
        start = bytearray(_CONTENT.size)
        source.into(memoryview(start))
        magic, data_len, count = _CONTENT.unpack(start)
        total = _CONTENT.size + data_len + count * _LENGTH.size
        if magic not in (_MAGIC, _MAGIC_OLD) or count > BUFFERS_MAX or total > head["size"]:
            raise Torn("an item of an unknown format")
        table = bytearray(count * _LENGTH.size)
        source.into(memoryview(table))
        lengths = [length for (length,) in _LENGTH.iter_unpack(table)]
        if total + sum([length & ~TEXT_BIT for length in lengths]) != head["size"]:
            raise Torn("an item whose size does not match its contents")
        data: Any = Arriving(source, data_len)
        if count and magic == _MAGIC_OLD:
            data = io.BytesIO(data.read(data_len))
        buffers = [self._read_buffer(length) for length in lengths]
        if head["size"] <= KEPT_MAX and type(data) is Arriving:
            data = io.BytesIO(data.read(data_len))
        return Item(names_of(head), data, buffers)

    def _read_buffer(self, length: int) -> Any:
        if length & TEXT_BIT:
            return self._joined(Arriving(self._source, length & ~TEXT_BIT).texts())
        room = writable(length)
        self._source.into(memoryview(room))
        return room

    # Restoring --------------------------------------------------------------------

    def restore(self, fd: int, baseline: Baseline, base: Optional[str], budget_s: float) -> None:
        """Read the part and restore everything possible; self.failed lists the rest. base: the initial folder of cells.
        budget_s: besides reading."""
        self._source = Source(fd)
        self._deadline = monotonic() + budget_s
        work.loader = self
        data_limit = resource.getrlimit(resource.RLIMIT_DATA)[0]
        before = signal.signal(signal.SIGALRM, self._tick)
        signal.setitimer(signal.ITIMER_REAL, TICK_S, TICK_S)
        try:
            self._bound(data_limit)
            self._restore_all(baseline, base)
            self._restore_modules()
            self._reorder()
        finally:
            self._limit = None
            limit_data(data_limit)
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
            work.loader = None
            self._pending = []
        self._restore_ambient()
        more = len(self.failed) - FAILED_MAX
        if more > 0:
            text = "{} more could not be restored".format(more)
            self.failed[FAILED_MAX:] = [{"name": "others", "reason": text}]

    def _bound(self, most: int) -> None:
        """Limit memory: an item that does not fit fails alone, while the kernel's limit would end the process."""
        if self._room is not None:
            with open("/proc/self/statm") as file:
                used = int(file.read().split()[5]) * mmap.PAGESIZE
            limit_data(used + self._room if most < 0 else min(most, used + self._room))

    def _now(self) -> float:
        waited: float = self._source.waited_s
        return monotonic() - waited

    def _tick(self, _number: int, _frame: Any) -> None:
        if self._limit is not None and not self._source.is_reading and self._now() > self._limit:
            self._limit = None
            raise Slow()

    def moved(self, path: str) -> str:
        """The current location of a path of the saved session."""
        if self._moved is not None:
            old, new = self._moved
            if path == old or path.startswith(old + "/"):
                return new + path[len(old) :]
        return path

    def find_ref(self, ident: str) -> Any:
        try:
            return self._refs[ident]
        except KeyError:
            reason = self._errors.get(ident, {}).get("reason", "it was not saved")
            raise Refused("class {}: {}".format(clean(ident, 100), reason)) from None

    @contextlib.contextmanager
    def _limited(self) -> Iterator[None]:
        """Limit an item to a part of the remaining time."""
        now = self._now()
        self._limit = now + max((self._deadline - now) * ROOT_PART, TICK_S)
        try:
            yield
        finally:
            self._limit = None

    def _load(self, item: Item) -> Any:
        with self._limited():
            return Unpickler(self, item.data, item.buffers, item.texts).load()

    def _fail_all(self, names: List[str], why: Dict[str, str]) -> None:
        self.failed += [{"name": clean(name, NAME_MAX), **why} for name in names]

    def _fail(self, name: str, error: BaseException) -> None:
        self._fail_all([name], why_of(error))

    def _restore_interpreter(self, item: Item, baseline: Baseline, base: Optional[str]) -> None:
        try:
            settings = self.settings = self._load(item)
            old = settings.get("base")
            if base is not None and old is not None and old != base:
                self._moved = (old, base)
            restore_settings(settings, baseline, base, self.moved)
        except Exception as error:
            self._fail("the interpreter", error)
        restore_descriptors(self.settings.get("descriptors", []), self.moved, self._fail)
        restore_options(self.settings.get("options", {}), self._fail)

    def _restore_all(self, baseline: Baseline, base: Optional[str]) -> None:
        """Restore each item as it arrives."""
        while True:
            head = self._source.next()
            if head is None:
                break
            if head["kind"] not in ("vars", "lost"):
                raise Torn("an item of the unknown kind {}".format(clean(head["kind"], 50)))
            if head["kind"] == "vars" and self._has_room(head):
                self._restore_one(head, baseline, base)
            self._source.skip()
            self._source.done()
        self._retry()
        for ident, _ in self._classes:
            self._fail_all(["class " + ident], self._errors[ident])
        for item in self._pending:
            self._fail_all(item.names, item.why)
        for name, why in self.half_failed.items():
            self._fail(name, why)

    def _restore_one(self, head: Dict[str, Any], baseline: Baseline, base: Optional[str]) -> None:
        try:
            item = self._read_item(head)
        except MemoryError as error:
            self._fail_all(names_of(head), why_of(error))
            return
        if head["name"] == ":interpreter":
            self._restore_interpreter(item, baseline, base)
        elif head["name"] == ":sources":
            try:
                restore_sources(self._load(item))
            except Exception as error:
                self._fail("texts of cells", error)
        elif head["name"] == ":classes":
            try:
                self._classes = self._load(item)
            except Exception as error:
                self._fail("classes", error)
            self._retry()
        else:
            self._restore_group(item)

    def _restore_group(self, item: Item) -> None:
        is_once = type(item.data) is Arriving
        if is_once:
            self._retry()  # it may need these
        if not self._try_item(item):
            if is_once:
                self._fail_all(item.names, item.why)
            else:
                self._pending.append(item)

    def _retry(self) -> None:
        """Repeat while it helps: an item may need a later one."""
        before = -1
        while len(self._classes) + len(self._pending) not in (before, 0):
            before = len(self._classes) + len(self._pending)
            self._classes = [one for one in self._classes if not self._try_class(*one)]
            self._pending = [item for item in self._pending if not self._try_item(item)]

    def _try_class(self, ident: str, data: bytes) -> bool:
        try:
            self._refs[ident] = make_class(*self._load(Item([], io.BytesIO(data), [])))
            return True
        except BaseException as error:
            self._errors[ident] = why_of(error)
            return False

    def _try_item(self, item: Item) -> bool:
        try:
            if type(item.data) is not Arriving:
                item.data.seek(0)
            _, _, names, specials = self._load(item)[:4]
            self.names.update(names)
            if type(specials) is tuple:  # written by an older version as a single value
                specials = {"_": specials[0]} if specials else {}
            self._ambient.update(specials)
            return True
        except BaseException as error:  # must not keep its objects alive
            item.why = why_of(error)
            return False

    def _restore_modules(self) -> None:
        """Import modules of the workspace; their code runs unless they are already imported."""
        for name in [name for name in self._ambient if name.startswith(STATE_OF)]:
            try:
                with self._limited():
                    write_module(name[len(STATE_OF) :], self._ambient.pop(name), self.moved, self._fail)
            except BaseException as error:
                self._fail(name, error)

    def _restore_ambient(self) -> None:
        """At the end: loading modules changes some of it."""
        if "_" in self._ambient:
            builtins._ = self._ambient.pop("_")  # type: ignore[attr-defined]
        # Attributes of modules first: some settings refer to them.
        for name, value in sorted(self._ambient.items(), key=lambda one: not one[0].startswith(PATCHES)):
            try:
                write_ambient(name, value, self.moved)
            except Exception as error:
                self._fail(name, error)
        self._ambient = {}

    def _reorder(self) -> None:
        for name in self.settings.get("order", ()):
            if name in self.names:
                self.names[name] = self.names.pop(name)
