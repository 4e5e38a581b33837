"""Old journals stay readable."""

import json
from collections import Counter
from pathlib import Path

import pytest
from make_golden import expected

import nestbo
from nestbo.codec import FORMAT
from nestbo.events import Event, Opened
from nestbo.journal import read

JOURNALS = sorted(Path(__file__).parent.glob("*.jsonl"))


def test_there_are_golden_journals_of_every_format():
    """Every format up to the current one has its golden journals, and together they hold every kind of event."""
    assert {path.name.partition("-")[0] for path in JOURNALS} == {f"format{n}" for n in range(1, FORMAT + 1)}
    seen = Counter(type(event) for path in JOURNALS for event in read(path))
    assert set(seen) == set(Event.__args__)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("path", JOURNALS, ids=lambda path: path.stem)
def test_a_golden_journal_is_read(path, tmp_path):
    """Every number of a journal that some version has written comes back, to the last bit, and the run goes on."""
    copy = tmp_path / path.name
    copy.write_bytes(path.read_bytes())
    wanted = json.loads(path.with_suffix(".expected.json").read_text(encoding="utf-8"))
    with nestbo.Optimizer.resume(copy) as opt:
        assert isinstance(read(copy)[0], Opened)
        # Through JSON, which turns tuples into lists.
        found = json.loads(json.dumps(expected(opt)))
        assert list(found) == list(wanted)
        for name, value in wanted.items():
            assert found[name] == value, name
        assert copy.read_bytes() == path.read_bytes(), "resuming writes nothing"
        opt.extend(opt.budget + 2)
        before = len(opt.state.outcomes)
        while opt.remaining:
            opt.tell(opt.ask(), 1.0)
        assert opt.result().nfev > before
