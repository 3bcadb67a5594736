"""CASE/UCO 1.4 as JSON-LD: the evidence, the volume, each file and its location.

A file is an `observable:File` with facets; a deleted file is also an `observable:RecoveredObject`.
A relationship to the file system gives its location. Source: the CASE 1.4 ontology.
"""

from __future__ import annotations

import hashlib
import json
import stat
from collections import Counter
from collections.abc import Iterator
from typing import ClassVar

from ext4kit import __version__
from ext4kit.export.format import TextFormat
from ext4kit.export.rows import Batch, FileRow, Range
from ext4kit.export.texts import iso
from ext4kit.fields import SomeDigests
from ext4kit.recovery import DeletedFile, Grade
from ext4kit.report.safe import printable_text

_UCO = "https://ontology.unifiedcyberontology.org/uco/"
_TIMES = {
    "atime": "accessedTime", "mtime": "modifiedTime", "ctime": "metadataChangeTime",
    "crtime": "observableCreatedTime",
}  # fmt: skip
_MOMENTS = (
    *(f"observable:{name}" for name in (*_TIMES.values(), "extDeletionTime", "extInodeChangeTime")),
    "action:startTime",
)
_CONTEXT = {
    **{name: f"{_UCO}{name}/" for name in ("action", "core", "observable", "tool", "types")},
    "case-investigation": "https://ontology.caseontology.org/case/investigation/",
    "xsd": "http://www.w3.org/2001/XMLSchema#",
    **{name: {"@id": name, "@type": "xsd:dateTime"} for name in _MOMENTS},
    "types:hashValue": {"@id": "types:hashValue", "@type": "xsd:hexBinary"},
}
_METHODS = {"md5": "MD5", "sha1": "SHA1", "sha256": "SHA256"}
_ENCODE = json.JSONEncoder(separators=(",", ":")).encode
Node = dict[str, object]


class CaseUco(TextFormat):
    """A JSON-LD graph; each line has a file and its location."""

    takes_ranges: ClassVar[bool] = True

    def begin(self) -> None:
        """Write the context and all objects that are not files."""
        subject = self.subject
        volume = subject.volume
        evidence = subject.image.evidence
        where = evidence.place(volume) if volume.parent else volume.offset
        place = f"{subject.fs.superblock.uuid_text} {where} {evidence.path.name}"
        self._base = hashlib.sha256(place.encode(errors="surrogateescape"))
        self._system = self._identity("file system")
        self._above: list[tuple[str, Counter[str]]] = []  # open directories, and their names so far
        self.stream.write(f'{{"@context":{_ENCODE(_CONTEXT)},\n"@graph":[\n')
        self.stream.write(",\n".join(map(_ENCODE, self._provenance())))

    def files(self, batch: Batch) -> None:
        """Write each file and the relationship that gives its location."""
        parts = [""]
        for row, ranges, digests in zip(
            batch.rows, batch.ranges, batch.complete_digests, strict=True
        ):
            self.count += 1
            gone = row.gone  # also distinguishes files with the same name and inode
            turn = f"{row.state} {gone.first_block} {_told(row)}" if gone else self._repeated(row)
            identity = self._identity(f"{row.path} {row.number} {row.generation} {turn}")
            nodes = [_file(row, identity, digests), _place(identity, self._system, ranges)]
            parts.append(_ENCODE(nodes)[1:-1])
        self.stream.write(",\n".join(parts) if batch.rows else "")

    def _repeated(self, row: FileRow) -> str:
        """A text that distinguishes repetitions of a live name in a damaged directory; "" at first.

        A directory precedes its content, so only the directories above the current row are kept.
        """
        folder, _, name = row.path.rpartition("/")
        while self._above and not f"{folder}/".startswith(f"{self._above[-1][0]}/"):
            self._above.pop()
        if not self._above or self._above[-1][0] != folder:
            self._above.append((folder, Counter()))
        listed = self._above[-1][1]
        listed[name] += 1
        return "" if listed[name] == 1 else f"again {listed[name]}"

    def end(self) -> None:
        """Close the graph."""
        self.stream.write("\n]}\n")

    def _identity(self, what: str) -> str:
        """An identifier without its last 32 bits; each export gives the same identifier.

        With the last 32 bits appended, it has the form of a name-based UUID (version 5).
        """
        state = self._base.copy()
        state.update(b"\0" + what.encode())
        digits = state.hexdigest()
        variant = "89ab"[int(digits[16], 16) & 3]
        parts = (digits[:8], digits[8:12], f"5{digits[13:16]}", variant + digits[17:20])
        return f"urn:uuid:{'-'.join(parts)}-{digits[20:24]}"

    def _provenance(self) -> Iterator[Node]:
        """The objects of the tool, the evidence, the file system, and the examination."""
        subject, volume = self.subject, self.subject.volume
        tool, image = self._identity("tool"), self._identity("image")
        yield {
            "@id": _iri(tool), "@type": "tool:Tool", "core:name": "ext4kit",
            "tool:toolType": "file system analysis", "tool:version": __version__,
        }  # fmt: skip
        evidence = subject.image.evidence
        name = printable_text(evidence.path.name)
        yield {
            "@id": _iri(image), "@type": "observable:ObservableObject",
            "core:hasFacet": [
                _facet(image, 1, "File", {"fileName": name, "sizeInBytes": evidence.source.size}),
                _facet(image, 2, "Image", {"imageType": evidence.format}),
            ],
        }  # fmt: skip
        yield {
            "@id": _iri(self._system), "@type": "observable:FileSystem",
            "core:hasFacet": [_facet(self._system, 1, "FileSystem", {
                "fileSystemType": volume.kind, "clusterSize": subject.fs.superblock.block_size,
            })],
        }  # fmt: skip
        where: list[Range] = [(0, volume.source.size, volume.offset)]
        yield _place(self._system, image, [] if volume.parent else where, "image")
        yield self._action(tool, image)

    def _action(self, tool: str, image: str) -> Node:
        subject = self.subject
        arguments = (("operator", subject.operator), ("case", subject.case_number),
                ("command", subject.command))  # fmt: skip
        words = "; ".join(f"{name}: {value}" for name, value in arguments if value)
        action: Node = {
            "@id": _iri(self._identity(f"action {subject.started}")),
            "@type": "case-investigation:InvestigativeAction",
            "core:name": "export of a file system's files",
            "action:startTime": iso(subject.started),
            "action:instrument": {"@id": _iri(tool)},
            "action:object": [{"@id": _iri(image)}],
            "action:result": [{"@id": _iri(self._system)}],
        }
        if words:
            action["core:description"] = printable_text(words)
        return action


def _told(row: FileRow) -> tuple[int | None, ...]:
    """Values that distinguish files with the same name and inode."""
    return (row.size, row.links, row.atime, row.mtime, row.ctime, row.crtime, row.dtime)


def _file(row: FileRow, identity: str, digests: SomeDigests) -> Node:
    facets = [_file_facet(row, identity)]
    if row.mode is not None:
        facets.append(_inode_facet(row, identity))
    if digests:
        facets.append(_content_facet(row, identity, digests))
    kinds = ["observable:File"]
    if row.gone is not None:
        kinds.append("observable:RecoveredObject")
        facets.append(_facet(identity, 4, "RecoveredObject", _recovered(row.gone)))
    return {"@id": _iri(identity), "@type": kinds, "core:hasFacet": facets}


def _file_facet(row: FileRow, identity: str) -> Node:
    values: Node = {
        "fileName": row.name,
        "filePath": row.path,
        "isDirectory": row.kind == "directory",
        "allocationStatus": "allocated" if row.gone is None else "unallocated",
    }
    if row.size is not None:
        values["sizeInBytes"] = row.size
    for name, term in _TIMES.items():
        moment = getattr(row, name)
        if moment is not None:
            values[term] = iso(moment)
    return _facet(identity, 1, "File", values)


def _inode_facet(row: FileRow, identity: str) -> Node:
    mode = row.mode or 0
    values: Node = {
        "extInodeID": row.number,
        "extFileType": stat.S_IFMT(mode) >> 12,
        "extPermissions": stat.S_IMODE(mode),
        "extSUID": row.uid,
        "extSGID": row.gid,
        "extHardLinkCount": row.links,
    }
    if row.ctime is not None:
        values["extInodeChangeTime"] = iso(row.ctime)
    if row.dtime is not None:
        values["extDeletionTime"] = iso(row.dtime)
    return _facet(identity, 2, "ExtInode", values)


def _content_facet(row: FileRow, identity: str, digests: SomeDigests) -> Node:
    facet = _facet(identity, 3, "ContentData", {"sizeInBytes": row.size or 0})
    facet["observable:hash"] = [
        {
            "@id": _iri(identity, 16 + place),
            "@type": "types:Hash",
            "types:hashMethod": _METHODS[name],
            "types:hashValue": value,
        }
        for place, (name, value) in enumerate(digests.items())
    ]
    return facet


def _recovered(file: DeletedFile) -> Node:
    """Recovery status of the file, in UCO's terms."""
    content = {
        Grade.INTACT: "recovered",
        Grade.CONSISTENT: "recovered",
        Grade.PARTIAL: "partially recovered",
        Grade.CARVED: "partially recovered",
        Grade.OVERWRITTEN: "overwritten" if file.blocks_reused else "unknown",
    }[file.grade]
    has_part = file.name is not None or file.partial_path is not None
    name = "partially recovered" if has_part else "unknown"
    metadata = "recovered" if file.inode is not None else "unknown"
    if metadata == "recovered" and file.size is None:
        metadata = "partially recovered"
    return {
        "contentRecoveredStatus": content,
        "metadataRecoveredStatus": metadata,
        "nameRecoveredStatus": "recovered" if file.path is not None else name,
    }


def _place(source: str, target: str, ranges: list[Range], kind: str = "volume") -> Node:
    """The relationship "source is in target", with a facet for each located range, in order."""
    node: Node = {
        "@id": _iri(source, 5),
        "@type": "observable:ObservableRelationship",
        "core:source": {"@id": _iri(source)},
        "core:target": {"@id": _iri(target)},
        "core:kindOfRelationship": "Contained_Within",
        "core:isDirectional": True,
    }
    facets = [
        _facet(source, 64 + at, "DataRange",
               {"rangeOffset": place, "rangeSize": length, "rangeOffsetType": kind})
        for at, (_, length, place) in enumerate(ranges) if place is not None and place >= 0
    ]  # fmt: skip
    return node | ({"core:hasFacet": facets} if facets else {})


def _facet(owner: str, part: int, kind: str, values: Node) -> Node:
    node: Node = {"@id": _iri(owner, part), "@type": f"observable:{kind}Facet"}
    return node | {f"observable:{name}": value for name, value in values.items()}


def _iri(identity: str, part: int = 0) -> str:
    """Identifier of an object, or of one of its parts."""
    return f"{identity}{part:08x}"
