"""The kinds of records, the location of their types, and their JSON Schemas."""

from __future__ import annotations

import json
from importlib import import_module
from inspect import isfunction

from ext4kit.report.json_schema import RecordType, schema_of

_KINDS = {  # module and name of each type, loaded on request
    "artifact": ("report.artifacts:ArtifactRecord",),
    "artifact file": ("report.artifacts:ArtifactFileRecord",),
    "block": ("report.who:BlockRecord",),
    "bookmark": ("output.bookmarks:BookmarkRecord",),
    "activity": ("report.triage.records:ActivityRecord",),
    "case": ("output.case:CaseRecord",),
    "case answer": ("cases.lines:CaseAnswerRecord",),
    "case image": ("cases.lines:AddedRecord",),
    "case job": ("cases.lines:CaseJobRecord",),
    "collection": ("output.collecting:CollectionRecord",),
    "copy": ("report.journal_replay:CopyRecord",),
    "crash victim": ("report.triage.records:VictimRecord",),
    "crosscheck": ("report.crosscheck:CrossCheckRecord",),
    "burst": ("report.deleted:FolderRecord", "report.event_bursts:EventBurstRecord"),
    "deleted": ("report.deleted:DeletedRecord",),
    "deletions": ("report.triage.records:DeletionsRecord",),
    "difference": ("report.crosscheck:DifferenceRecord",),
    "disk map": ("report.triage.records:DiskMapRecord",),
    "node": ("report.nodes:NodeRecord",),
    "not unpacked": ("report.search:NotUnpackedRecord",),
    "entry": ("report.listing:EntryRecord", "report.listing:UnknownEntryRecord"),
    "event": ("report.timeline:EventRecord",),
    "evidence": ("report.hashes:EvidenceRecord",),
    "evidence check": ("output.case:EvidenceCheckRecord",),
    "explanation": ("report.explanation:ExplanationRecord",),
    "export": ("export.summary:ExportRecord",),
    "extraction": ("output.extraction:ExtractionRecord",),
    "file": ("export.tabular:FileRecord",),
    "file version": ("report.file_versions:FileVersionRecord",),
    "file hash": ("report.file_hashes:FileHashRecord",),
    "file system": ("report.triage.records:FileSystemRecord",),
    "file with hits": ("report.search:FileHitsRecord",),
    "finding": ("report.verify:FindingRecord", "audit:AuditFinding"),
    "found file system": ("report.volumes:FoundRecord",),
    "gap": ("audit:TidGap",),
    "group": ("report.group_facts:GroupRecord",),
    "hit": ("report.search:HitRecord",),
    "hash": ("report.hashes:HashRecord",),
    "hash window": ("report.hashes:WindowRecord",),
    "health": ("report.triage.records:HealthRecord",),
    "inode": ("report.inode_facts:InodeRecord", "report.inode_facts:UnknownInodeRecord"),
    "job": ("cases.jobs:JobFileRecord",),
    "journal": ("report.journal_facts:journal_types",),
    "log": ("triage.facts:JournalFacts",),
    "log line": ("report.logs:LogLineRecord",),
    "lost file system": ("report.lost:LostRecord",),
    "manifest": (
        "recovery.manifest:RecoveredFile",
        "output.collecting:CollectedFile",
        "output.extraction:ExtractedFile",
        "output.extraction:UnknownFile",
        "report.file_versions:FileVersionRecord",
    ),
    "mmp": ("report.journal_facts:MmpRecord",),
    "package": ("report.packages:PackageRecord",),
    "package difference": ("report.packages:PackageDifferenceRecord",),
    "packaged file": ("report.packages:PackagedFileRecord",),
    "problem": ("report.records:ProblemRecord",),
    "recovery": ("report.deleted:RecoveryRecord",),
    "removed name": ("report.deleted:RemovedNameRecord",),
    "replay": ("report.journal_replay:ReplayFacts",),
    "report": ("report.triage.records:ReportRecord",),
    "rule": ("report.rules:RuleRecord",),
    "root": ("report.roots:RootRecord",),
    "root change": ("report.roots:RootChangeRecord",),
    "scan": ("recovery.kept_scan:ScanRecord",),
    "sighting": ("report.triage.records:SightingRecord",),
    "session": ("report.triage.records:SessionRecord",),
    "sign": ("report.triage.records:IndicatorRecord",),
    "state": ("report.info:StateRecord",),
    "summary": (
        "report.deleted:DeletedSummary",
        "report.search:SearchSummary",
        "report.artifacts:ArtifactsSummary",
        "report.packages:PackagesSummary",
        "report.verify:VerifySummary",
        "report.journal_audit:AuditSummary",
        "report.timeline:TimelineSummary",
        "report.logs:LogsSummary",
    ),
    "superblock": ("report.superblock_facts:superblock_types",),
    "transaction": (
        "report.journal_list:TransactionRecord",
        "report.journal_list:TransactionFacts",
    ),
    "verdict": ("report.journal_audit:VerdictRecord",),
    "version": ("report.journal_history:VersionRecord",),
    "other volume": ("report.volumes:OtherVolumeRecord",),
    "volume": ("report.volumes:VolumeRecord",),
    "writer": ("report.info:WriterRecord",),
}
_DESCRIPTIONS = {  # descriptions of kinds with several types or without a suitable docstring
    "node": "A file or directory of another tree (`ls --view`, `stat --view`).",
    "entry": "A directory entry and its inode (`ls`).",
    "finding": "A defect (`verify`, `journal audit`).",
    "gap": "A gap in the transaction ids (`journal audit`).",
    "inode": "All fields of an inode (`stat`).",
    "journal": "The superblock of the journal (`info`).",
    "log": "Summary of the journal (`report`).",
    "manifest": 'A record of manifest.jsonl in an output folder; it has no field "record".',
    "replay": "What a recovery would do (`journal replay`, `journal audit`).",
    "summary": "The last record of a command.",
    "superblock": "The superblock (`info`).",
    "transaction": "A transaction in the journal (`journal list`, `journal replay`).",
}


_OF_A_SECTION = frozenset(  # kinds that commands for several images print
    ("activity", "artifact", "artifact file", "collection", "crash victim", "deleted",
     "deletions", "disk map", "event", "evidence", "evidence check", "export", "file system",
     "file with hits", "finding", "health", "log", "log line", "problem", "recovery", "burst",
     "not unpacked", "hit", "package", "package difference", "packaged file", "removed name",
     "report", "root", "root change", "session", "sighting", "sign", "summary", "volume", "writer")
)  # fmt: skip
_SECTION = {
    "image": {"type": "string", "description": "The image; only with several images or volumes."},
    "volume": {
        "type": "integer",
        "description": "Number of the volume; only with several images or volumes.",
    },
}


def schema_names() -> tuple[str, ...]:
    """The kinds of records, as in their field `record`."""
    return tuple(sorted(_KINDS))


def schema_text(name: str) -> str:
    """The schema of a kind of record.

    Raises:
        KeyError: the kind does not exist.
    """
    types = tuple(map(_loaded, _KINDS[name]))
    schema = schema_of(name, types, _DESCRIPTIONS.get(name, ""))
    for form in schema.get("oneOf", [schema]) if name in _OF_A_SECTION else ():
        form["properties"] = {**_SECTION, **form["properties"]}
    return json.dumps(schema, indent=2) + "\n"


def _loaded(place: str) -> RecordType:
    """A type, or the annotations that a function of that name returns."""
    module, _, name = place.partition(":")
    found: RecordType = getattr(import_module(f"ext4kit.{module}"), name)
    return found() if isfunction(found) else found
