"""A hundred files by real programs: ffmpeg, ImageMagick, 7z, tar, sqlite3, qemu-img and others.

Each is a line of the shell, run in an empty folder; $1 is the file to make, $2 a size that it
should have about, in bytes, $3 a folder of real files, $4 a seed.
"""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sample_images.recipes.machine import SYSTEM_PATH

KIB, MIB = 1 << 10, 1 << 20
_STRUCTURELESS = frozenset({"txt", "log", "sql", "bin"})  # of these no check finds a stranger


@dataclass(frozen=True, slots=True)
class Encoded:
    """A file to make.

    Attributes:
        name: of the file.
        line: of the shell.
        size: bytes it should have about.
    """

    name: str
    line: str
    size: int

    @property
    def has_structure(self) -> bool:
        """Whether its format has an inner structure that a check can follow."""
        return self.name.rpartition(".")[2] not in _STRUCTURELESS


_PICTURE = "testsrc2=s=1280x720:r=25,noise=alls=30:allf=t:all_seed=$4"
_SOUND = "anoisesrc=c=pink:r=44100:a=0.3:seed=$4"
_FFMPEG = "ffmpeg -v error -nostdin"


def _film(codec: str, more: str = "") -> str:
    return (
        f'{_FFMPEG} -f lavfi -i "{_PICTURE}" -f lavfi -i "{_SOUND}" -c:v {codec} {more} '
        '-fs "$2" -t 1000 "$1"'
    )


def _music(codec: str) -> str:
    return f'{_FFMPEG} -f lavfi -i "{_SOUND}" -c:a {codec} -fs "$2" "$1"'


def _image(options: str) -> str:
    """A picture whose area is chosen so that at `bits` per pixel it has the size."""
    bits, _, rest = options.partition(" ")
    side = f'$(awk "BEGIN {{ print int(sqrt($2 * 8 / {bits})) }}")'
    return (
        f"side={side}; convert -seed $4 -size ${{side}}x${{side}} plasma:fractal "
        f'-attenuate 0.6 +noise Gaussian {rest} "$1"'
    )


_X264 = "libx264 -preset ultrafast -crf 12"
_FILES = 'cp -r "$3" files; find files -type f | sort > list'
_ROWS = """awk -v n="$2" -v s="$4" 'BEGIN { srand(s); while (t < n) {
 l = ROW; print l; t += length(l) + 1 } }'"""
_LOG_ROW = (
    r"""sprintf("10.0.%d.%d - - [28/Nov/2026:%02d:%02d:%02d +0000] \"GET /a/%d HTTP/1.1\" %d %d","""
    " rand()*256, rand()*256, rand()*24, rand()*60, rand()*60, rand()*1e6, "
    "200+int(rand()*5)*50, rand()*1e5)"
)
_SQL_ROW = """sprintf("INSERT INTO t VALUES (%d,\\047name %d\\047,%f);", ++i, rand()*1e9, rand())"""
_MAIL = """awk -v n="$2" -v s="$4" 'BEGIN { srand(s); while (t < n) {
 u = sprintf("user%d@example.org", rand()*99)
 h = sprintf("From %s Sat Nov 28 %02d:%02d:%02d 2026", u, rand()*24, rand()*60, rand()*60)
 h = h sprintf("\\nFrom: %s\\nSubject: number %d\\n", u, ++i)
 print h; t += length(h) + 1
 k = 5 + rand()*60
 for (j = 0; j < k; j++) { l = sprintf("line %d of %d: %x %x", j, i, rand()*2^31, rand()*2^31)
 print l; t += length(l) + 1 } print ""; t++ } }' > "$1" """
_DATABASE = """sqlite3 "$1" "PRAGMA page_size=4096;
 CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT, c BLOB);
 WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM n WHERE x < $2/700)
 INSERT INTO t SELECT x, 'row ' || x || ' of ' || $4, randomblob(560) FROM n;
 CREATE INDEX i ON t(b);" """
_RANDOM = 'head -c "$2" /dev/urandom > part; '
_ALL = f"{_FILES}; {_RANDOM}"
_DISK = 'truncate -s 1G disk; mke2fs -q -F -t ext4 -d "$3" disk; '

_LINES: dict[str, tuple[str, tuple[int, ...]]] = {
    "h264.mp4": (_film(_X264), (700 * KIB, 3 * MIB, 9 * MIB, 40 * MIB, 110 * MIB, 700 * MIB)),
    "web.mp4": (_film(_X264, "-movflags +faststart"), (2 * MIB, 25 * MIB)),
    "hevc.mp4": (_film("libx265 -preset ultrafast -x265-params log-level=none"), (4 * MIB,)),
    "stream.mp4": (_film(_X264, "-movflags frag_keyframe+empty_moov"), (12 * MIB,)),
    "cut.mov": (_film("mjpeg -q:v 3", "-c:a pcm_s16le"), (5 * MIB, 60 * MIB)),
    "phone.3gp": (_film("h263 -s 704x576", "-ac 1 -c:a aac"), (1 * MIB, 6 * MIB)),
    "song.m4a": (_music("aac"), (900 * KIB, 6 * MIB)),
    "film.mkv": (_film(_X264), (800 * KIB, 6 * MIB, 30 * MIB, 300 * MIB)),
    "film.webm": (_film("libvpx -deadline realtime -cpu-used 16 -b:v 20M"), (5 * MIB,)),
    "film.avi": (_film("mpeg4 -q:v 2"), (1 * MIB, 7 * MIB, 50 * MIB)),
    "record.ts": (_film("mpeg2video -q:v 2"), (2 * MIB, 20 * MIB)),
    "record.vob": (_film("mpeg2video -q:v 2", "-f vob"), (10 * MIB,)),
    "sound.wav": (_music("pcm_s16le"), (500 * KIB, 4 * MIB, 32 * MIB)),
    "sound.flac": (_music("flac"), (2 * MIB, 24 * MIB)),
    "sound.mp3": (_music("libmp3lame -b:a 320k"), (600 * KIB, 4 * MIB, 9 * MIB)),
    "sound.ogg": (_music("libvorbis -q:a 9"), (500 * KIB, 5 * MIB)),
    "photo.jpg": (
        _image("4 -quality 92"), (300 * KIB, 1 * MIB, 2 * MIB, 4 * MIB, 8 * MIB, 12 * MIB)
    ),
    "shot.png": (_image("24"), (400 * KIB, 2 * MIB, 9 * MIB)),
    "scan.tif": (_image("24 -compress none"), (1 * MIB, 12 * MIB)),
    "zipped.tif": (_image("24 -compress zip"), (5 * MIB,)),
    "small.webp": (_image("4 -quality 95"), (500 * KIB, 2 * MIB)),
    "art.psd": (_image("24"), (6 * MIB,)),
    "old.bmp": (_image("24 -depth 8"), (3 * MIB,)),
    "new.heic": (_image("4 -quality 90"), (1 * MIB,)),
    "new.avif": (_image("4 -quality 90"), (600 * KIB,)),
    "paper.pdf": (
        _image("4 -quality 90").replace('"$1"', "page.jpg") + '; img2pdf -o "$1" page.jpg',
        (1 * MIB, 5 * MIB),
    ),
    "restart.jpg": (
        _image("4 -quality 92").replace('"$1"', "all.jpg")
        + '; jpegtran -restart 8 -outfile "$1" all.jpg',
        (3 * MIB,),
    ),
    "web.jpg": (_image("3 -interlace JPEG -quality 90"), (2 * MIB,)),
    "moving.gif": (_film("gif").replace("1280x720", "320x240"), (3 * MIB,)),
    "film.flv": (_film("flv -q:v 2", "-ar 44100"), (6 * MIB,)),
    "film.wmv": (_film("wmv2 -q:v 2"), (8 * MIB,)),
    "sound.aiff": (_music("pcm_s16be"), (3 * MIB,)),
    "sound.opus": (_music("libopus -b:a 256k"), (2 * MIB,)),
    "disk.iso": (_ALL + 'xorriso -as mkisofs -quiet -J -R -o "$1" .', (12 * MIB,)),
    "package.deb": (
        _RANDOM + "mkdir -p p/DEBIAN p/usr; mv part p/usr; "
        "printf 'Package: p\nVersion: 1\nArchitecture: all\nMaintainer: a\nDescription: b\n'"
        ' > p/DEBIAN/control; dpkg-deb -b p "$1"',
        (5 * MIB,),
    ),
    "office.docx": (
        _RANDOM + 'mkdir word; mv part word/media1.jpg; cp -r "$3" word/xml; zip -q -r "$1" word',
        (700 * KIB, 3 * MIB),
    ),
    "files.zip": (_ALL + 'zip -q -r "$1" files part', (2 * MIB, 20 * MIB, 90 * MIB)),
    "files.7z": (_ALL + '7z a -bd -mx=1 "$1" files part > out', (3 * MIB, 35 * MIB)),
    "files.tar": (_ALL + 'tar cf "$1" files part', (5 * MIB, 80 * MIB)),
    "files.tar.gz": (_ALL + 'tar czf "$1" files part', (2 * MIB, 15 * MIB, 60 * MIB)),
    "files.tar.xz": (_ALL + 'tar cf - files part | xz -1 > "$1"', (2 * MIB, 16 * MIB)),
    "files.tar.zst": (_ALL + 'tar cf - files part | zstd -q > "$1"', (3 * MIB, 30 * MIB)),
    "files.tar.bz2": (_ALL + 'tar cjf "$1" files part', (4 * MIB,)),
    "rows.sqlite": (_DATABASE, (400 * KIB, 2 * MIB, 11 * MIB, 45 * MIB)),
    "vm.qcow2": (_DISK + 'qemu-img convert -O qcow2 disk "$1"', (1,)),
    "vm-small.qcow2": (_DISK + 'qemu-img convert -c -O qcow2 disk "$1"', (1,)),
    "vm.vmdk": (_DISK + 'qemu-img convert -O vmdk disk "$1"', (1,)),
    "mail.mbox": (_MAIL, (600 * KIB, 14 * MIB)),
    "dump.sql": (_ROWS.replace("ROW", _SQL_ROW) + ' > "$1"', (800 * KIB, 18 * MIB)),
    "access.log": (_ROWS.replace("ROW", _LOG_ROW) + ' > "$1"', (500 * KIB, 5 * MIB, 28 * MIB)),
    "program.elf": ("""find /usr/lib /usr/bin -type f -size +600k -size -40M -exec sh -c '
 head -c 4 "$1" | grep -q ELF && echo "$1"' sh {} \\; | sort | awk -v s=$4 'NR == s % 37 + 1' |
 xargs -I{} cp {} "$1" """, (1, 1, 1)),
}  # fmt: skip


def encoded() -> Iterator[Encoded]:
    """All of them, with a number in the name."""
    for name, (line, sizes) in _LINES.items():
        stem, _, ending = name.partition(".")
        for number, size in enumerate(sizes):
            yield Encoded(f"{stem}-{number}.{ending}", line, size)


def encode(folder: Path, inputs: Path) -> list[Encoded]:
    """Make those that are not yet in a folder; the list of all that could be made.

    A program that is not installed leaves its files out.
    """
    folder.mkdir(parents=True, exist_ok=True)
    dice, made = random.Random(7), []
    for one in encoded():
        seed, target = str(dice.randrange(1, 10**6)), folder / one.name
        if not target.exists():
            _run(one, target, inputs, seed)
        if target.exists():
            made.append(one)
    return made


def _run(one: Encoded, target: Path, inputs: Path, seed: str) -> None:
    work = target.parent / ".work"
    subprocess.run(["rm", "-rf", work], check=True)
    work.mkdir()
    given = [str(work / one.name), str(one.size), str(inputs), seed]
    done = subprocess.run(
        ["sh", "-ec", one.line, "sh", *given],
        cwd=work, env={**os.environ, "PATH": SYSTEM_PATH}, stdin=subprocess.DEVNULL, check=False,
        capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode == 0 and (work / one.name).exists():
        (work / one.name).rename(target)
    else:
        print(f"left out: {one.name}: {done.stderr.strip()[-200:]}")
    subprocess.run(["rm", "-rf", work], check=True)
