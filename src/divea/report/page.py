"""The page of a report: one HTML file that loads nothing and stays below a size, whatever the run."""

from __future__ import annotations

import base64
import hashlib
import shlex
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

import divea
from divea.errors import InputError, printable
from divea.explanations.explain import explain_pair
from divea.explanations.explanation import Explanation
from divea.explanations.kept import Kept
from divea.explanations.picture import STYLE, picture
from divea.explanations.text import relation_name
from divea.io import new_file, usable_path
from divea.report.charts import Line, bar_chart, line_chart
from divea.report.facts import (
    THRESHOLDS,
    Curve,
    bars_of_stages,
    calibration_of,
    confidence_bars,
    entity_counts,
    expected_curve,
    iterations_of,
    matched_shares,
    settings_of,
    stages_of,
)
from divea.report.samples import KINDS, Kind, choose_samples
from divea.runs.finished import FinishedRun

LARGEST = 3_000_000
"""The most bytes of a page."""
_BESIDE_ROWS = 500_000
"""Bytes of a page that are reserved for everything but the pairs."""
SAMPLES = 200
"""The most pairs of a page."""
_LONGEST_VALUE = 300
_MOST_LITERALS = 8

Step = Callable[[int, int], None]
"""Called with the number of explained pairs, and with how many there will be."""


@dataclass(frozen=True)
class Truth:
    """What gold links say about a run; only the evaluation can compute it."""

    curve: Curve
    figures: dict[str, float]
    """Coverage, hits@k and MRR, and figures of the mappings."""
    links: int
    target_of: dict[int, int]
    source_of: dict[int, int]
    """The counterpart of each entity of a gold link."""

    def verdict(self, source: int, target: int) -> str:
        """What gold says about a pair."""
        if source not in self.target_of and target not in self.source_of:
            return "not in gold"
        return "correct" if self.target_of.get(source) == target else "wrong"


def write_report(
    run: FinishedRun, path: str | Path, truth: Truth | None = None, on_step: Step | None = None
) -> int:
    """Write the report of a run, and return its size in bytes.

    Parameters
    ----------
    path
        The file to write; its name ends in .html.
    truth
        What gold links say, to be shown beside what the run expects.
    on_step
        Called while pairs are being explained, for a progress display.
    """
    path = usable_path(path)
    if path.suffix.lower() not in (".html", ".htm"):
        raise InputError("a report is written as HTML; let the name end in .html", path=path)
    kept = Kept(run, many=True)
    text = _render(kept, _rows(kept, truth, on_step), truth)
    with new_file(path) as temporary:
        temporary.write_bytes(text)
    return len(text)


def _rows(kept: Kept, truth: Truth | None, on_step: Step | None) -> dict[Kind, list[Markup]]:
    """The rows of the table by kind, as many as the page has room for."""
    samples = choose_samples(kept, SAMPLES)
    rows: dict[Kind, list[Markup]] = {kind: [] for kind in KINDS}
    size = 0
    for place, sample in enumerate(samples):
        if on_step is not None:
            on_step(place, len(samples))
        found = _shortened(explain_pair(kept, sample.source))
        target = -1 if found.target is None else int(kept.task.target.find([found.target.label])[0])
        verdict = "" if truth is None else truth.verdict(sample.source, target)
        content = {"kind": sample.kind, "found": found, "picture": Markup(picture(found)), "gold": verdict}
        row = _template("row.html").render(content)
        size += len(row.encode())
        if size > LARGEST - _BESIDE_ROWS:
            break
        rows[sample.kind].append(Markup(row))
    return {kind: own for kind, own in rows.items() if own}


def _shortened(found: Explanation) -> Explanation:
    """An explanation without long lists, because a page shows many explanations."""
    literals = tuple(
        replace(one, source_values=_cut(one.source_values), target_values=_cut(one.target_values))
        for one in found.literals[:_MOST_LITERALS]
    )
    return replace(found, literals=literals)


def _cut(values: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(value[:_LONGEST_VALUE] + "…" * (len(value) > _LONGEST_VALUE) for value in values[:5])


def _render(kept: Kept, rows: dict[Kind, list[Markup]], truth: Truth | None) -> bytes:
    run, confidence = kept.run, kept.evidence.confidence
    expected, calibration = expected_curve(confidence), calibration_of(run)
    threshold = min(kept.threshold, 1.0)
    script = _text("report.js")
    stages = stages_of(run)
    content = {
        "divea": divea.__version__,
        "style": Markup(_text("report.css") + STYLE),
        "script": Markup(script),
        "script_hash": base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        "name": "/".join(run.path.resolve().parts[-2:]),
        "export": f"divea export {shlex.quote(printable(str(run.path)))} -o pairs.tsv --min-confidence ",
        "source": entity_counts(kept.task.source),
        "target": entity_counts(kept.task.target),
        "calibration": calibration,
        "threshold": threshold,
        "curve": None if expected is None else _slider(expected, truth),
        "curve_chart": None if expected is None else _curve_chart(expected, truth, threshold),
        "confidence_chart": bar_chart(confidence_bars(confidence)) if expected is not None else None,
        "shares": [(one.by, bar_chart(one.bars, highest=1.0)) for one in matched_shares(kept)],
        "iterations": iterations_of(run),
        "stages": stages,
        "stage_chart": bar_chart(bars_of_stages(stages)),
        "manifest": run.manifest,
        "settings": settings_of(run.manifest.settings),
        "kinds": {kind: KINDS[kind] for kind in rows},
        "rows": [row for own in rows.values() for row in own],
        "truth": truth,
    }
    return _template("report.html").render(content).encode()


def _slider(expected: Curve, truth: Truth | None) -> dict[str, Any]:
    """What the slider shows at each threshold."""
    found: dict[str, Any] = {"thresholds": THRESHOLDS.tolist(), "expected": asdict(expected)}
    return found if truth is None else {**found, "true": asdict(truth.curve)}


def _curve_chart(expected: Curve, truth: Truth | None, threshold: float) -> Markup:
    lines = [Line("expected precision", 0, expected.precision), Line("expected recall", 1, expected.recall)]
    if truth is not None:
        lines.append(Line("true precision", 0, truth.curve.precision, dashed=True))
        lines.append(Line("true recall", 1, truth.curve.recall, dashed=True))
    return line_chart(lines, "confidence threshold", threshold)


def _template(name: str) -> jinja2.Template:
    return _ENVIRONMENT.get_template(name)


def _text(name: str) -> str:
    source = _ENVIRONMENT.loader
    assert source is not None
    return source.get_source(_ENVIRONMENT, name)[0]


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f} %"


def _bytes(count: int) -> str:
    return f"{count / 2**30:,.2f} GiB" if count >= 2**30 else f"{count / 2**20:,.0f} MiB"


_ENVIRONMENT = jinja2.Environment(
    loader=jinja2.PackageLoader("divea.report"),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_ENVIRONMENT.filters |= {"percent": _percent, "bytes": _bytes, "shown": printable, "relation": relation_name}
