"""Let traceml-ai and NVRx watch trainings with faults, beside what `llmbx explain` says of the same run.

    python benchmarks/explain/others.py LIST.toml FOLDER --python PYTHON --traceml PYTHON --nvrx SITE [--only NAME,NAME]

FOLDER has what record.py wrote of the list. `--traceml` is the Python of an environment with `traceml-ai`, `--nvrx`
the site-packages of one with `nvidia-resiliency-ext` and `nvidia-cuda-cupti-cu12`, both of the version of PYTHON. Each
fault is trained once more, with both tools in the ranks; FOLDER/LIST.others.json has what they said. A table is
printed.
"""

from __future__ import annotations

import argparse
import json
import signal
import socket
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import conditions
from answers import Cause, explain, rank_of
from record import Fault, Recorder

Answers = dict[str, Any]
WAIT_S = 60
"""How long traceml may take for its summary."""


def watched(recorder: Recorder, fault: Fault, options: argparse.Namespace, session: str) -> Answers:
    """Train with both tools; return what each said of the run."""
    logs = recorder.folder / "traceml"
    port = free_port()
    traceml = [str(options.traceml.with_name("traceml")), "serve", "--run-name", session, "--logs-dir", str(logs)]
    traceml += ["--nnodes", "1", "--nproc-per-node", "2", "--aggregator-port", str(port)]
    traceml += ["--aggregator-bind-host", "0.0.0.0"]
    site = next(options.traceml.parents[1].glob("lib/*/site-packages"))
    watch = {"traceml": str(site), "nvrx": str(options.nvrx), "logs": str(logs), "session": session, "port": port}
    aggregator = subprocess.Popen(traceml, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        time.sleep(3)
        run = recorder.train({**fault, "watch": watch})
    finally:
        aggregator.send_signal(signal.SIGINT)
        aggregator.wait(WAIT_S)
    summary = json.loads((logs / session / "final_summary.json").read_text())
    nvrx = json.loads((recorder.folder_of(run) / "nvrx.json").read_text())
    return {"run": run, "traceml": diagnoses(summary), "nvrx": nvrx}


def diagnoses(summary: dict[str, Any]) -> str:
    """Return traceml's verdict, and what else it found with its ranks."""
    verdict = summary["primary_diagnosis"]["status"]
    issues = [issue for section in summary.values() if isinstance(section, dict) for issue in section.get("issues", [])]
    texts = [f"{issue['status']}{of_ranks(issue.get('ranks') or [])}" for issue in issues]
    first = [text for text in texts if text.startswith(verdict)]
    return "; ".join(dict.fromkeys([*(first or [verdict]), *texts]))


def of_ranks(ranks: list[Any]) -> str:
    """Return the ranks of a finding as text."""
    return f": {', '.join(map(str, ranks))}" if ranks else ""


def stragglers(answers: dict[str, dict[str, list[int]]]) -> str:
    """Return the sections in which NVRx calls a rank a straggler."""
    texts = [
        f"{section} ({kind}): {', '.join(map(str, ranks))}"
        for kind, sections in answers.items()
        for section, ranks in sections.items()
    ]
    return "; ".join(texts) or "no straggler"


def causes_of(answer: dict[str, Any]) -> str:
    """Return the causes that explain names, with their ranks."""
    causes: list[Cause] = answer.get("causes") or []
    return "; ".join(f"{cause['id']}: {rank_of(cause)}" for cause in causes[:3]) or "nothing"


def table(truth: dict[str, Any], others: dict[str, Answers], recorder: Recorder) -> list[str]:
    """Return a line for each fault that was watched."""
    lines = ["| fault | true | llmbx explain | traceml | NVRx |", "|---|---|---|---|---|"]
    for name, answers in others.items():
        true = "; ".join(f"{cause['id']}: {rank_of(cause)}" for cause in truth[name]["causes"])
        against = ("--against", truth[name]["healthy"]) if truth[name]["against"] else ()
        named = causes_of(explain(recorder.install, answers["run"], *against))
        lines.append(f"| {name} | {true} | {named} | {answers['traceml']} | {stragglers(answers['nvrx'])} |")
    return lines


def free_port() -> int:
    """Return a port that nobody listens at."""
    with socket.socket() as listener:
        listener.bind(("", 0))
        return int(listener.getsockname()[1])


def main() -> None:
    """Watch the faults of a list that are recorded, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("list", type=Path)
    parser.add_argument("folder", type=Path)
    for name in ("--python", "--traceml", "--nvrx"):
        parser.add_argument(name, type=Path, required=True)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    recorder = Recorder(options.folder.absolute(), options.list.stem, str(options.python))
    file = recorder.folder / f"{options.list.stem}.others.json"
    others: dict[str, Answers] = json.loads(file.read_text()) if file.exists() else {}
    recorded = recorder.truth["faults"]
    names = options.only.split(",") if options.only else list(recorded)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with conditions.preferred():
        for fault in tomllib.loads(options.list.read_text())["faults"]:
            if fault["name"] in names and fault["name"] in recorded and fault["name"] not in others:
                others[fault["name"]] = watched(recorder, fault, options, f"{fault['name']}-{time.time():.0f}")
                file.write_text(json.dumps(others, indent=1) + "\n")
    print("\n".join(table(recorded, others, recorder)))


if __name__ == "__main__":
    main()
