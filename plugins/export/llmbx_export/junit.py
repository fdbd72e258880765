"""Verdicts as JUnit XML, which CI servers read: `--format junit` of run, sweep and compare.

The elements and attributes are those of the schema of Jenkins' xUnit plugin (junit-10.xsd): times
have three decimals, and a test case has no properties, so that its figures are text in
`system-out`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING
from xml.etree import ElementTree

if TYPE_CHECKING:
    from llmbx.api.verbs import Case

_NOT_XML = re.compile("[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 cannot contain."""


def render(name: str, cases: Sequence[Case]) -> str:
    """The cases of a command as one XML document."""
    outcomes = [case.outcome for case in cases]
    counts = {f"{outcome}s": str(outcomes.count(outcome)) for outcome in ("failure", "error")}
    counts["tests"] = str(len(cases))
    skipped = str(outcomes.count("skipped"))
    top = ElementTree.Element("testsuites", {"name": "llmbx", **counts})
    suite = ElementTree.SubElement(top, "testsuite", {"name": name, "skipped": skipped, **counts})
    for case in cases:
        _add(case, suite)
    ElementTree.indent(top)
    # Other characters are written as references, whatever encodes stdout.
    text = ElementTree.tostring(top).decode("ascii")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'


def _add(case: Case, suite: ElementTree.Element) -> None:
    about = re.sub(r"\W", "_", case.about)  # servers split class names at dots
    attributes = {"name": _clean(case.name), "classname": f"llmbx.{about}"}
    item = ElementTree.SubElement(suite, "testcase", attributes)
    if case.time_s is not None:
        item.set("time", f"{case.time_s:.3f}")
    if case.outcome != "passed":
        reason = {"type": case.type, "message": _clean(case.message)}
        ElementTree.SubElement(item, case.outcome, reason)
    if case.output:
        ElementTree.SubElement(item, "system-out").text = _clean(case.output)


def _clean(text: str) -> str:
    return _NOT_XML.sub("?", text)
