"""The command line within the test's own process, which is quicker than a new one."""

import sys

import pytest
from commandline import cli


@pytest.fixture
def main(monkeypatch, capsys, tmp_path):
    """Call the command line in a folder of its own: exit code, standard output, standard error."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["nestbo", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            cli.main()
        return (end.value.code or 0, *capsys.readouterr())

    return call
