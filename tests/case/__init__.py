"""Tests of cases: many images, one ledger, one database."""
