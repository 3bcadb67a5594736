"""What can happen in a random history: one method an act, each written into the book."""

from __future__ import annotations

import errno
import os
import random
import stat
import time
from collections.abc import Callable
from pathlib import Path

from sample_images.recipes import machine, syscalls
from sample_images.recipes.contents import WORDS, text
from sample_images.recipes.history_book import Book, Life
from sample_images.recipes.history_layouts import Layout
from sample_images.recipes.syscalls import Fallocate

FULL, UNFIT = errno.ENOSPC, (errno.EOPNOTSUPP, errno.EINVAL, errno.ENODEV)
MOST_FILES = 90
BIGGEST = 300_000
SEEN = 0.7  # of the files that are opened: somebody asks for their times
ALIGNED = 4096  # bytes that a write past the page cache is a multiple of
PAUSE = 0.01  # seconds; the kernel's clock ticks at least once in it
HOUR = 3600 * 10**9
A_WHILE = (61, 3600)  # seconds; by then the kernel has written and committed everything


class Acts:
    """A mounted file system on which things happen at random, and the book of them.

    Attributes:
        root: where it is mounted.
        layout: what it is.
        chance: decides about everything.
        book: what is known of every life.
        held: open handles of unlinked files and their lives.
    """

    def __init__(self, root: Path, layout: Layout, chance: random.Random) -> None:
        self.root = root
        self.layout = layout
        self.chance = chance
        self.book = Book()
        self.held: list[tuple[int, Life]] = []
        self.operation = 0
        plain = not layout.inline and layout.name != "ext2"
        extents = plain and not layout.name.startswith("ext3")
        self._weighted: list[tuple[Callable[[], None], int]] = [
            (self.create, 22), (self.write_in_place, 10), (self.append, 8), (self.resize, 5),
            (self.unlink, 16), (self.rename, 6), (self.link, 2), (self.make_folder, 4),
            (self.remove_folder, 1), (self.remove_tree, 1), (self.make_link, 2),
            (self.hold, 3), (self.write_held, 2), (self.let_go, 2), (self.set_times, 4),
            (self.fsync, 5), (self.sync, 3), (self.commit, 3), (self.flush, 2),
            (self.rewrite, 3), (self.save_over, 4), (self.change_mode, 2),
            (self.write_mapped, 3 * plain), (self.allocate, 3 * extents),
            (self.punch, 3 * extents), (self.shift, 2 * extents),
            (self.write_past_cache, 2 * plain), (self.pass_by, 2 * plain),
            (self.let_time_pass, 4 * machine.owns_clock()),
        ]  # fmt: skip

    def create_many(self) -> None:
        """Files to be deleted later, in half of the space."""
        half = os.statvfs(self.root).f_bfree // 2
        while len(self.book.of_kind("file")) < MOST_FILES:
            if os.statvfs(self.root).f_bfree < half:
                break
            self.create()

    def act_quietly(self) -> None:
        """Something goes or gets another name; no file is written. Half of it takes its time."""
        self.operation += 1
        if self.chance.random() < 0.5:
            time.sleep(PAUSE)
        acts = (self.unlink, self.unlink, self.unlink, self.rename, self.remove_folder, self.sync)
        self.chance.choice(acts)()

    def act(self) -> None:
        """One thing happens; where there is no space, something goes instead."""
        self.operation += 1
        acts, weights = zip(*self._weighted, strict=True)
        act = self.chance.choices(acts, weights)[0]
        crowded = len(self.book.of_kind("file")) > MOST_FILES
        try:
            (self.unlink if crowded and self.chance.random() < 0.5 else act)()
        except OSError as error:
            if error.errno == FULL:
                self.unlink()
            elif error.errno not in UNFIT:
                raise

    # -- what the acts share --------------------------------------------------------------

    def path(self, name: bytes) -> Path:
        """The path of a file outside."""
        return self.root / os.fsdecode(name)

    def _pick(self, kind: str = "file") -> bytes | None:
        paths = self.book.of_kind(kind)
        return self.chance.choice(paths) if paths else None

    def _fresh_path(self) -> bytes | None:
        """A path that is free; names come back, so that they are not unique over time."""
        folder = self.chance.choice([b"", *self.book.of_kind("directory")])
        length = self.chance.choice((0, 0, 0, 40, 120))
        name = self.chance.choice(WORDS) + str(self.chance.randrange(30)) + "n" * length
        path = (folder + b"/" if folder else b"") + name.encode()
        return None if path in self.book.tree else path

    def _bytes(self, size: int) -> bytes:
        """New content; some of it is zeros, at its end or for whole blocks."""
        lot = self.chance.random()
        if lot < 0.4:
            return text(f"{self.operation} {lot}", size)
        data = bytearray(self.chance.randbytes(size))
        if lot > 0.85 and size > 8:
            zeros = self.chance.choice((3, 100, 5000, 20_000)) % size
            place = self.chance.choice((size - zeros, self.chance.randrange(size - zeros + 1)))
            data[place : place + zeros] = bytes(zeros)
        return bytes(data)

    def _size(self) -> int:
        lot, block = self.chance.random(), self.layout.block_size
        if lot < 0.05:
            return 0
        if lot < 0.15:
            return self.chance.randint(1, 160)
        if lot < 0.25:
            return block * self.chance.randint(1, 12)
        return self.chance.randint(1, 8 * block if lot < 0.8 else 200_000)

    def _keep(self, life: Life) -> None:
        life.keep(self.operation, time.time_ns())

    def _write(self, handle: int, life: Life, offset: int, data: bytes) -> None:
        """Write and note what the kernel took."""
        done = os.pwrite(handle, data, offset) if data else 0
        if len(life.data) < offset:
            life.data.extend(bytes(offset - len(life.data)) if done else b"")
        life.data[offset : offset + done] = data[:done]
        self._keep(life)

    def _opened(self, name: bytes, use: Callable[[int, Life], None]) -> None:
        """Do something with an open file.

        Who asks for a file's times gets finer ones for the next change. Without that, a change
        within the same tick of the clock as the one before leaves no record.
        """
        handle = os.open(self.path(name), os.O_RDWR | os.O_NOFOLLOW)
        try:
            if self.chance.random() < SEEN:
                os.fstat(handle)
            use(handle, self.book.tree[name])
        finally:
            os.close(handle)

    def _with_file(self, use: Callable[[int, Life], None]) -> None:
        name = self._pick()
        if name is not None:
            self._opened(name, use)

    def enter(self, path: bytes, kind: str) -> Life:
        """A life that was just made goes into the book."""
        found = self.path(path).lstat()
        number = syscalls.generation(self.path(path)) if kind != "symlink" else -1
        return self.book.add(path, Life(found.st_ino, number, kind))

    # -- content --------------------------------------------------------------------------

    def create(self) -> None:
        """A new file, in one write or in pieces, at times closed by fsync."""
        path = self._fresh_path()
        if path is not None:
            self._create(path, self.chance.random() < 0.15)

    def _create(self, path: bytes, fsync: bool) -> None:
        handle = os.open(self.path(path), os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
        try:
            life = self.enter(path, "file")
            self._keep(life)
            offset = self.chance.choice((0, 0, 0, 0, 0, 0, 0, 50_000))
            for _ in range(self.chance.choice((1, 1, 1, 2, 4))):
                self._write(handle, life, offset, self._bytes(self._size()))
                offset = len(life.data) + self.chance.choice((0, 0, 0, 9000))
            if fsync:
                os.fsync(handle)
        finally:
            os.close(handle)

    def write_in_place(self) -> None:
        """Other bytes over those that are there, at one place or at several."""
        self._with_file(self._overwrite)

    def _overwrite(self, handle: int, life: Life) -> None:
        for _ in range(self.chance.choice((1, 1, 3))):
            if life.data:
                offset = self.chance.randrange(len(life.data))
                left = len(life.data) - offset
                self._write(handle, life, offset, self._bytes(self.chance.randint(1, left)))

    def append(self) -> None:
        """More bytes at the end."""
        self._with_file(self._append)

    def _append(self, handle: int, life: Life) -> None:
        if len(life.data) < BIGGEST:
            self._write(handle, life, len(life.data), self._bytes(self._size()))

    def resize(self) -> None:
        """Shorter, or longer by a hole."""
        self._with_file(self._resize)

    def _resize(self, handle: int, life: Life) -> None:
        size = len(life.data)
        shorter = self.chance.randint(0, size)
        self._set_size(handle, life, self.chance.choice((0, shorter, shorter, size + 7000)))

    def _set_size(self, handle: int, life: Life, size: int) -> None:
        os.ftruncate(handle, size)
        life.data[size:] = bytes(max(size - len(life.data), 0))
        self._keep(life)

    def rewrite(self) -> None:
        """Emptied and written anew: the same inode."""
        self._with_file(self._rewrite)

    def _rewrite(self, handle: int, life: Life) -> None:
        self._set_size(handle, life, 0)
        self._write(handle, life, 0, self._bytes(self._size()))

    def save_over(self) -> None:
        """A new file renamed over an old one, as editors do, with or without fsync."""
        name = self._pick()
        if name is not None and name + b"~" not in self.book.tree:
            self._create(name + b"~", self.chance.random() < 0.5)
            self._rename(name + b"~", name)

    def write_mapped(self) -> None:
        """Other bytes through a mapping."""
        self._with_file(self._write_mapped)

    def _write_mapped(self, handle: int, life: Life) -> None:
        if life.data:
            offset = self.chance.randrange(len(life.data))
            data = self._bytes(self.chance.randint(1, len(life.data) - offset))
            syscalls.write_mapped(handle, offset, data)
            life.data[offset : offset + len(data)] = data
            self._keep(life)

    def allocate(self) -> None:
        """Blocks without bytes, inside or behind the end."""
        self._with_file(self._allocate)

    def _allocate(self, handle: int, life: Life) -> None:
        offset = self.chance.randint(0, len(life.data))
        length = self.chance.randint(1, 60_000)
        keep = self.chance.random() < 0.5
        syscalls.fallocate(handle, Fallocate.KEEP_SIZE * keep, offset, length)
        if not keep:
            life.data.extend(bytes(max(offset + length - len(life.data), 0)))
            self._keep(life)

    def punch(self) -> None:
        """A hole, or zeros, where bytes were."""
        self._with_file(self._punch)

    def _punch(self, handle: int, life: Life) -> None:
        if life.data:
            offset = self.chance.randrange(len(life.data))
            length = self.chance.randint(1, len(life.data) - offset)
            mode = self.chance.choice((Fallocate.PUNCH_HOLE, Fallocate.ZERO_RANGE))
            syscalls.fallocate(handle, mode | Fallocate.KEEP_SIZE, offset, length)
            life.data[offset : offset + length] = bytes(length)
            self._keep(life)

    def shift(self) -> None:
        """Whole blocks are cut out of a file, or a hole is put in; what is behind moves."""
        self._with_file(self._shift)

    def _shift(self, handle: int, life: Life) -> None:
        unit = self.layout.block_size
        count = len(life.data) // unit
        if count < 2:
            return
        offset, length = unit * self.chance.randrange(count - 1), unit
        if self.chance.random() < 0.5:
            syscalls.fallocate(handle, Fallocate.COLLAPSE_RANGE, offset, length)
            del life.data[offset : offset + length]
        else:
            syscalls.fallocate(handle, Fallocate.INSERT_RANGE, offset, length)
            life.data[offset:offset] = bytes(length)
        self._keep(life)

    def write_past_cache(self) -> None:
        """Whole blocks are written with O_DIRECT: they are on the disk at once."""
        name = self._pick()
        if name is None or len(self.book.tree[name].data) < ALIGNED:
            return
        life = self.book.tree[name]
        handle = os.open(self.path(name), os.O_RDWR | os.O_NOFOLLOW | os.O_DIRECT)
        try:
            offset = ALIGNED * self.chance.randrange(len(life.data) // ALIGNED)
            data = self.chance.randbytes(ALIGNED)
            syscalls.write_directly(handle, offset, data)
            life.data[offset : offset + ALIGNED] = data
            self._keep(life)
        finally:
            os.close(handle)

    def pass_by(self) -> None:
        """A file without a name, or with one for a moment, fills blocks with O_DIRECT and goes."""
        flags = os.O_RDWR | os.O_DIRECT
        path = self.path(b".passing")
        if self.chance.random() < 0.5:
            handle = os.open(self.root, flags | os.O_TMPFILE, 0o600)
        else:
            handle = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            data = self.chance.randbytes(ALIGNED * self.chance.choice((1, 4, 16, 64)))
            syscalls.write_directly(handle, 0, data)
            if self.chance.random() < 0.3:
                os.ftruncate(handle, 0)
        finally:
            os.close(handle)
            path.unlink(missing_ok=True)

    # -- names ----------------------------------------------------------------------------

    def unlink(self) -> None:
        """One name goes."""
        name = self._pick(self.chance.choice(("file",) * 9 + ("symlink",)))
        if name is not None:
            self.path(name).unlink()
            self.book.drop(name)

    def rename(self) -> None:
        """A file or a directory moves, at times over another file."""
        old = self._pick(self.chance.choice(("file", "file", "file", "directory")))
        new = self._pick() if self.chance.random() < 0.2 else self._fresh_path()
        if old is not None and new is not None and not (new + b"/").startswith(old + b"/"):
            over = self.book.tree.get(new)
            if over is None or self.book.tree[old].kind == "file":
                self._rename(old, new)

    def _rename(self, old: bytes, new: bytes) -> None:
        if self.book.tree.get(new) is self.book.tree[old]:
            return  # two names of one file: rename(2) leaves both
        self.path(old).rename(self.path(new))
        if new in self.book.tree:
            self.book.drop(new)
        self.book.move(old, new)

    def link(self) -> None:
        """A second name for a file."""
        old, new = self._pick(), self._fresh_path()
        if old is not None and new is not None:
            self.path(new).hardlink_to(self.path(old))
            self.book.name(new, self.book.tree[old])

    def make_folder(self) -> None:
        """A directory."""
        path = self._fresh_path()
        if path is not None and len(self.book.of_kind("directory")) < 20:
            self.path(path).mkdir()
            self.enter(path, "directory")

    def remove_folder(self) -> None:
        """An empty directory goes."""
        empty = [path for path in self.book.of_kind("directory") if not self.book.below(path)]
        if empty:
            path = self.chance.choice(empty)
            self.path(path).rmdir()
            self.book.drop(path)

    def remove_tree(self) -> None:
        """A directory goes with all that is below it."""
        folder = self._pick("directory")
        if folder is None:
            return
        for path in [*self.book.below(folder), folder]:
            is_folder = self.book.tree[path].kind == "directory"
            self.path(path).rmdir() if is_folder else self.path(path).unlink()
            self.book.drop(path)

    def make_link(self) -> None:
        """A symbolic link, short or long."""
        path = self._fresh_path()
        if path is not None:
            target = b"t" * self.chance.choice((5, 59, 60, 200, 900))
            self.path(path).symlink_to(os.fsdecode(target))
            self.enter(path, "symlink").data[:] = target

    def hold(self) -> None:
        """A file is unlinked while it is open."""
        name = self._pick()
        if name is not None and len(self.held) < 6:
            self.held.append((os.open(self.path(name), os.O_RDWR), self.book.tree[name]))
            self.path(name).unlink()
            self.book.drop(name)

    def write_held(self) -> None:
        """An unlinked file that is open is written to."""
        if self.held:
            use = self.chance.choice((self._overwrite, self._append, self._resize))
            handle, life = self.chance.choice(self.held)
            os.fstat(handle)
            use(handle, life)

    def let_go(self) -> None:
        """A held file is closed."""
        if self.held:
            handle, _ = self.held.pop(self.chance.randrange(len(self.held)))
            os.close(handle)

    def let_all_go(self) -> None:
        """All held files are closed."""
        while self.held:
            self.let_go()

    # -- times and flushes ----------------------------------------------------------------

    def set_times(self) -> None:
        """Times by hand: long ago, a while ago, or still to come."""
        name = self._pick()
        if name is not None:
            moment = time.time_ns() + self.chance.choice((-9000, -1, 1)) * HOUR
            os.utime(self.path(name), ns=(moment, moment))

    def change_mode(self) -> None:
        """A change of the inode alone."""
        name = self._pick()
        if name is not None:
            self.path(name).chmod(self.chance.choice((0o600, 0o644, 0o755)))

    def fsync(self) -> None:
        """One file goes to the disk."""
        self._with_file(lambda handle, _: os.fsync(handle))

    def flush(self) -> None:
        """The bytes of one file go to the disk, and nothing is committed."""
        self._with_file(lambda handle, _: syscalls.flush(handle))

    def sync(self) -> None:
        """Everything goes to the disk."""
        machine.sync(self.root)

    def let_time_pass(self) -> None:
        """Minutes go by, in a kernel that owns its clock."""
        machine.sync(self.root)
        machine.move_clock(self.chance.uniform(*A_WHILE))

    def commit(self) -> None:
        """The transaction ends; other files' data stays where it is."""
        marker = self.path(b".commit")
        new = not marker.exists()
        handle = os.open(marker, os.O_CREAT | os.O_RDWR)
        try:
            life = self.enter(b".commit", "directory") if new else self.book.tree[b".commit"]
            life.kind = "marker"  # not to be picked
            os.pwrite(handle, b"%d" % self.operation, 0)
            os.fsync(handle)
        finally:
            os.close(handle)

    # -- after a mount --------------------------------------------------------------------

    def look_again(self) -> None:
        """Take the tree as the kernel shows it: a cut may have lost changes or brought back."""
        self.book.tree.clear()
        for folder, folders, files in os.walk(self.root):
            for name in sorted(folders + files):
                self._find(Path(folder, name))

    def _find(self, path: Path) -> None:
        name, found = os.fsencode(path.relative_to(self.root)), path.lstat()
        if stat.S_ISLNK(found.st_mode):
            lives = self.book.links.get(found.st_ino, [])
            life = lives[-1] if lives else self.enter(name, "symlink")
        else:
            kind = "directory" if stat.S_ISDIR(found.st_mode) else "file"
            known = self.book.lives.get((found.st_ino, syscalls.generation(path)))
            life = known or self.enter(name, kind)
        self.book.name(name, life)
        if life.kind == "file":
            life.data[:] = path.read_bytes()
            self._keep(life)
