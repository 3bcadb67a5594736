"""The checker: every checksum and cross-reference of a file system, read only."""

from ext4kit.verify.findings import CODES, Code, Finding, Findings
from ext4kit.verify.verify import Verification, verify

__all__ = ["CODES", "Code", "Finding", "Findings", "Verification", "verify"]
