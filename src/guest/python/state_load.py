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
from state_stream import _CONTENT, _LENGTH, _MAGIC, BUFFERS_MAX, TEXT_BIT, Outside, Pieces, Source, Torn, writable
from state_texts import NAME_MAX, ROOT_PART, TICK_S, Refused, Slow, clean, why_of

FAILED_MAX = 500  # named failures; further ones are counted


class Item:
    """A group of variables as read; its memory is freed when it is restored."""

    def __init__(self, name: str, names: List[str], data: Pieces, buffers: List[Any]) -> None:
        """buffers: of texts, Pieces."""
        self.name = name
        self.names = names
        self.data: Any = data
        self.buffers = [one for one in buffers if type(one) is not Pieces]
        self.texts = [one for one in buffers if type(one) is Pieces]
        self.is_once = data.is_once or bool(self.texts)
        self.why: Dict[str, str] = {}

    def release(self) -> None:
        for pieces in [self.data] + self.texts:
            pieces.release()
        self.buffers = []


def names_of(head: Dict[str, Any]) -> List[str]:
    meta = head["meta"]
    names = list(meta.get("names", ())) + ["class " + c for c in meta.get("classes", ())]
    return names or [head["name"]]


class Unpickler(pickle.Unpickler):
    """Resolves our names, and the namespace."""

    def __init__(self, loader: "Loader", data: Any, buffers: Any, texts: Sequence[Pieces] = ()) -> None:
        super().__init__(data, buffers=buffers)
        self._texts = texts
        self._joined = loader.joined
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
            if ident not in self._late:
                self._late[ident] = self._joined(self._texts[ident[1]].texts())
            return self._late[ident]
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
        self._outside = Outside()
        self.joined = getattr(module, "joined", "".join)
        self.settings: Dict[str, Any] = {}
        self.failed: List[Dict[str, str]] = []
        self._items: List[Item] = []
        self._ambient: Dict[str, Any] = {}
        self._refs: Dict[str, Any] = {}
        self.half_failed: Dict[str, BaseException] = {}  # attributes of classes
        self._errors: Dict[str, Dict[str, str]] = {}
        self._moved: Optional[Tuple[str, str]] = None
        self._limit: Optional[float] = None
        self._deadline = 0.0

    # Reading ----------------------------------------------------------------------

    def read(self, fd: int) -> None:
        """Read the part; nothing in it is trusted or executed yet."""
        source = Source(fd)
        try:
            while True:
                head = source.next()
                if head is None:
                    return
                if head["kind"] == "vars":
                    self._take_item(source, head)
                elif head["kind"] != "lost":
                    raise Torn("an item of the unknown kind {}".format(clean(head["kind"], 50)))
                source.done()
        except BaseException:
            self._items = []
            self._outside.end()
            raise

    def _take_item(self, source: Source, head: Dict[str, Any]) -> None:
        """Read an item if there is room; the interpreter's own items come first, and are small."""
        if self._room is not None and not head["name"].startswith(":"):
            if head["size"] > self._room:
                source.skip(head["size"])
                self._fail_all(names_of(head), why_of(MemoryError()))
                return
            self._room -= head["size"]
        self._items.append(self._read_item(source, head))

    def _read_item(self, source: Source, head: Dict[str, Any]) -> Item:
        start = bytearray(_CONTENT.size)
        source.into(memoryview(start))
        magic, data_len, count = _CONTENT.unpack(start)
        total = _CONTENT.size + data_len + count * _LENGTH.size
        if magic != _MAGIC or count > BUFFERS_MAX or total > head["size"]:
            raise Torn("an item of an unknown format")
        table = bytearray(count * _LENGTH.size)
        source.into(memoryview(table))
        lengths = [length for (length,) in _LENGTH.iter_unpack(table)]
        if total + sum([length & ~TEXT_BIT for length in lengths]) != head["size"]:
            raise Torn("an item whose size does not match its contents")
        data = Pieces(source, data_len, self._outside)
        buffers: List[Any] = []
        for length in lengths:
            if length & TEXT_BIT:
                buffers.append(Pieces(source, length & ~TEXT_BIT, self._outside))
            else:
                buffers.append(writable(length))
                source.into(memoryview(buffers[-1]))
        return Item(head["name"], names_of(head), data, buffers)

    # Restoring --------------------------------------------------------------------

    def restore(self, baseline: Baseline, base: Optional[str], budget_s: float) -> None:
        """Restore everything possible; self.failed lists the rest. base: the initial folder of cells."""
        self._deadline = monotonic() + budget_s
        work.loader = self
        before = signal.signal(signal.SIGALRM, self._tick)
        signal.setitimer(signal.ITIMER_REAL, TICK_S, TICK_S)
        try:
            self._restore_interpreter(baseline, base)
            self._bound()
            self._restore_all()
            self._restore_modules()
            self._reorder()
        finally:
            self._limit = None
            self._outside.end()
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
            work.loader = None
            self._items = []
        self._restore_ambient()
        more = len(self.failed) - FAILED_MAX
        if more > 0:
            text = "{} more could not be restored".format(more)
            self.failed[FAILED_MAX:] = [{"name": "others", "reason": text}]

    def _bound(self) -> None:
        """Limit memory: an item that does not fit fails alone, while the kernel's limit would end the process."""
        if self._room is not None:
            with open("/proc/self/statm") as file:
                used = int(file.read().split()[5]) * mmap.PAGESIZE
            self._outside.bound(used + self._outside.size + self._room)

    def _tick(self, _number: int, _frame: Any) -> None:
        if self._limit is not None and monotonic() > self._limit:
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

    def _take(self, name: str) -> Optional[Item]:
        for item in self._items:
            if item.name == name:
                self._items.remove(item)
                return item
        return None

    @contextlib.contextmanager
    def _limited(self) -> Iterator[None]:
        """Limit an item to a part of the remaining time."""
        now = monotonic()
        self._limit = now + max((self._deadline - now) * ROOT_PART, TICK_S)
        try:
            yield
        finally:
            self._limit = None

    def _load(self, data: Any, buffers: Any, texts: Sequence[Pieces] = ()) -> Any:
        with self._limited():
            return Unpickler(self, data, buffers, texts).load()

    def _fail_all(self, names: List[str], why: Dict[str, str]) -> None:
        self.failed += [{"name": clean(name, NAME_MAX), **why} for name in names]

    def _fail(self, name: str, error: BaseException) -> None:
        self._fail_all([name], why_of(error))

    def _restore_interpreter(self, baseline: Baseline, base: Optional[str]) -> None:
        item = self._take(":interpreter")
        if item is None:
            return
        try:
            settings = self.settings = self._load(item.data, item.buffers)
            old = settings.get("base")
            if base is not None and old is not None and old != base:
                self._moved = (old, base)
            restore_settings(settings, baseline, base, self.moved)
        except Exception as error:
            self._fail("the interpreter", error)
        restore_descriptors(self.settings.get("descriptors", []), self.moved, self._fail)
        restore_options(self.settings.get("options", {}), self._fail)
        item = self._take(":sources")
        if item is not None:
            try:
                restore_sources(self._load(item.data, item.buffers))
            except Exception as error:
                self._fail("texts of cells", error)

    def _restore_all(self) -> None:
        """Repeat while it helps: an item may need a later one."""
        item = self._take(":classes")
        classes = []
        if item is not None:
            try:
                classes = self._load(item.data, item.buffers)
            except Exception as error:
                self._fail("classes", error)
        # Large ones can be read once: after everything that they may need.
        pending = [item for item in self._items if not item.is_once]
        large = [item for item in self._items if item.is_once]
        self._items = []
        lost: List[Item] = []
        while True:
            before = len(classes) + len(pending)
            classes = [one for one in classes if not self._try_class(*one)]
            pending = [item for item in pending if not self._try_item(item)]
            if len(classes) + len(pending) == before or not classes and not pending:
                if not large:
                    break
                lost, large = [item for item in large if not self._try_item(item)], []
        for ident, _ in classes:
            self._fail_all(["class " + ident], self._errors[ident])
        for item in pending + lost:
            self._fail_all(item.names, item.why)
        for name, why in self.half_failed.items():
            self._fail(name, why)

    def _try_class(self, ident: str, data: bytes) -> bool:
        try:
            self._refs[ident] = make_class(*self._load(io.BytesIO(data), ()))
            return True
        except BaseException as error:
            self._errors[ident] = why_of(error)
            return False

    def _try_item(self, item: Item) -> bool:
        try:
            item.data.rewind()
            _, _, names, specials = self._load(item.data, item.buffers, item.texts)[:4]
            self.names.update(names)
            if type(specials) is tuple:  # written by an older version as a single value
                specials = {"_": specials[0]} if specials else {}
            self._ambient.update(specials)
            item.release()
            return True
        except BaseException as error:  # must not keep its objects alive
            item.why = why_of(error)
            if item.is_once:
                item.release()
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
