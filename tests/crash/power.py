# SPDX-License-Identifier: Apache-2.0
"""The state folder as a power cut may leave it, made from the record of what was written.

What a disk keeps: of a file what was written before its last fsync, of a folder the names
before its own. Of the rest anything may be there: nothing of it, all of it, names without the
contents, contents without the names, or any pieces.
"""

import os
import random
from collections.abc import Callable

from faults import Io

Change = tuple[int, bytes | None]  # written at an offset, or cut there
Keep = Callable[[Change], list[Change]]  # what of it is on the disk
Names = list[tuple[str, int | None]]  # path, and a number of ours for its file, None = it is gone
Tree = dict[str, bytes | None]  # None for a folder

SECTOR = 512
VARIANTS = ("all", "none", "names", "contents", "pieces")


class File:
    def __init__(self) -> None:
        self.kept = b""  # by the last sync
        self.later: list[Change] = []  # writes and truncations since then, in order

    def content(self, keep: Keep) -> bytes:
        """With those later changes of which keep() says so."""
        data = bytearray(self.kept)
        for change in self.later:
            for offset, part in keep(change):
                if part is None:
                    data.extend(bytes(max(0, offset - len(data))))
                    del data[offset:]
                else:
                    data.extend(bytes(max(0, offset + len(part) - len(data))))
                    data[offset:offset + len(part)] = part
        return bytes(data)


def whole(change: Change) -> list[Change]:
    return [change]


def nothing(_: Change) -> list[Change]:
    return []


def pieces(chance: random.Random) -> Keep:
    """Keep each sector of a write or not."""

    def keep(change: Change) -> list[Change]:
        offset, part = change
        if part is None:
            return [change] if chance.random() < 0.5 else []
        kept: list[Change] = []
        at = offset
        while at < offset + len(part):
            end = min(offset + len(part), (at // SECTOR + 1) * SECTOR)
            if chance.random() < 0.5:
                kept.append((at, part[at - offset:end - offset]))
            at = end
        return kept

    return keep


class Disk:
    """The state folder while records are played, and what of it is safe."""

    def __init__(self) -> None:
        self.files: dict[int, File | None] = {}  # by a number of ours, all that ever were; None for a folder
        self.names = {"": 0}  # as programs see them: path: number
        self.kept = {"": 0}  # as the disk has them
        self.later: list[tuple[set[str], Names]] = []  # changes of names not synced yet, and their folders

    def play(self, record: Io) -> None:
        getattr(self, str(record.op))(record)

    def file(self, r: Io) -> File:
        number = self.names.get(r.path)
        if number is None:
            number = self.add(r, File())
        file = self.files[number]
        assert file is not None, f"{r.path} is a folder"
        return file

    def add(self, r: Io, thing: File | None) -> int:
        number = len(self.files) + 1
        self.files[number] = thing
        self.change(r.path, [(r.path, number)])
        return number

    def change(self, path: str, names: Names) -> None:
        """Names that change at once; both folders of a rename get it when either is synced."""
        self.later.append(({os.path.dirname(name) for name, _ in names} | {os.path.dirname(path)}, names))
        for name, number in names:
            self.apply(self.names, name, number)

    @staticmethod
    def apply(names: dict[str, int], name: str, number: int | None) -> None:
        if number is None:
            names.pop(name, None)
        else:
            names[name] = number

    def create(self, r: Io) -> None:
        self.add(r, File())

    def mkdir(self, r: Io) -> None:
        self.add(r, None)

    def write(self, r: Io) -> None:
        self.file(r).later.append((r.offset, r.data))

    def truncate(self, r: Io) -> None:
        self.file(r).later.append((r.offset, None))

    def rename(self, r: Io) -> None:
        names: Names = []
        assert r.other is not None
        for path, number in list(self.names.items()):
            if path == r.path or path.startswith(r.path + "/"):
                names += [(r.other + path[len(r.path):], number), (path, None)]
        if names:
            self.change(r.path, names)

    def link(self, r: Io) -> None:
        if r.path in self.names and r.other is not None:
            self.change(r.other, [(r.other, self.names[r.path])])

    def unlink(self, r: Io) -> None:
        self.change(r.path, [(r.path, None)])

    rmdir = unlink

    def sync(self, r: Io) -> None:
        if r.path == "" or (r.path in self.names and self.files[self.names[r.path]] is None):
            self.sync_folder(r.path)
        else:
            file = self.file(r)
            file.kept, file.later = file.content(whole), []

    def sync_folder(self, path: str) -> None:
        """Its changes are safe; of earlier ones what these have overtaken is so too."""
        later: list[tuple[set[str], Names]] = []
        settled: set[str] = set()
        for folders, names in reversed(self.later):
            if path in folders:
                settled.update(name for name, _ in names)
            else:
                rest = [(name, number) for name, number in names if name not in settled]
                if rest:
                    later.append((folders, rest))
        for name in settled:
            self.apply(self.kept, name, None)
        for folders, names in self.later:
            if path in folders:
                for name, number in names:
                    self.apply(self.kept, name, number)
        self.later = later[::-1]

    def after_cut(self, variant: str, chance: random.Random) -> Tree:
        """{path: bytes, or None for a folder} that is found at the next start."""
        names = dict(self.kept)
        later = {"none": 0, "contents": 0, "pieces": chance.randint(0, len(self.later))}.get(variant, len(self.later))
        for _, changed in self.later[:later]:
            for name, number in changed:
                self.apply(names, name, number)
        keep = {"all": whole, "contents": whole, "none": nothing, "names": nothing, "pieces": pieces(chance)}[variant]
        found: Tree = {}
        for path, number in sorted(names.items()):
            parent = os.path.dirname(path)
            if path and (parent == "" or found.get(parent, b"") is None):
                file = self.files[number]
                found[path] = None if file is None else file.content(keep)
        return found


def lay_out(tree: Tree, folder: str, uid: int) -> None:
    """Write such a tree into an empty folder, for a user."""
    for path, content in tree.items():
        at = os.path.join(folder, path)
        if content is None:
            os.mkdir(at, 0o700)
        else:
            with open(at, "wb") as out:
                out.write(content)
            os.chmod(at, 0o600)
        os.chown(at, uid, -1)
