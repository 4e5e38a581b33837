"""What the tests of the journal share."""

import pytest
from journal_runs import QuickDisk

from nestbo.journal import Journal


@pytest.fixture
def quick_disk(monkeypatch):
    """No fsync: the files are the same, sooner."""
    monkeypatch.setattr(Journal, "disk", QuickDisk())
