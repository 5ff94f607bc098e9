"""The report of a run: one page that shows what was aligned, how sure it is, and why."""

from divea.report.page import write_report

__all__ = ["write_report"]
