"""Files as a table (CSV) and as JSON lines."""

from __future__ import annotations

import csv
from typing import ClassVar, TypedDict

from ext4kit.export.columns import json_fields, json_records, table_names, table_rows
from ext4kit.export.format import TextFormat
from ext4kit.export.rows import Batch
from ext4kit.report.records import json_line


class CsvTable(TextFormat):
    """CSV with a heading; text in quotes, numbers without."""

    takes_types: ClassVar[bool] = True

    def begin(self) -> None:
        """Write the headings."""
        self._writer = csv.writer(self.stream, quoting=csv.QUOTE_NONNUMERIC)
        self._writer.writerow(table_names())

    def files(self, batch: Batch) -> None:
        """Write one row per file."""
        self._writer.writerows(table_rows(batch))
        self.count += len(batch)


class JsonLines(TextFormat):
    """One record `file` per file, times in integer nanoseconds, names exact."""

    takes_types: ClassVar[bool] = True

    def files(self, batch: Batch) -> None:
        """Write one line per file."""
        self.stream.write("".join(f"{json_line(record)}\n" for record in json_records(batch)))
        self.count += len(batch)


FileRecord = TypedDict("FileRecord", json_fields())  # type: ignore[misc]
FileRecord.__doc__ = "A live or deleted file (`export --jsonl`)."
