"""One HTML file that shows runs, from their journals: `write(["run.jsonl"], "report.html")`. Needs `nestbo[report]`."""

from nestbo.report.numbers import summarise
from nestbo.report.page import write
from nestbo.report.records import RunNumbers

__all__ = ["RunNumbers", "summarise", "write"]
