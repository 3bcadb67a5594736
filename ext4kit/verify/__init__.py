"""Read-only check of all checksums and cross-references of a file system."""

from ext4kit.verify.findings import CODES, Code, Finding, Findings
from ext4kit.verify.verify import Verification, verify

__all__ = ["CODES", "Code", "Finding", "Findings", "Verification", "verify"]
