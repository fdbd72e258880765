"""The public API for plugins that add commands: options and output, the run pipeline, records, history, catalog.

The version and its policy are those of `llmbx.api`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy import lazy

if TYPE_CHECKING:
    from ..catalog.references import Published as PublishedReferences
    from ..catalog.scales import evaluate as evaluate_scale
    from ..catalog.scales import scales as scales_of
    from ..cli.cases import Case, print_cases
    from ..cli.completion import RUN as RUN_ARGUMENT
    from ..cli.completion import WORKLOAD as WORKLOAD_ARGUMENT
    from ..cli.explicit_options import explicit_options
    from ..cli.extensions import Extension
    from ..cli.log_reading import LogReading
    from ..cli.main import Verbs
    from ..cli.numbers import Above as NumberAbove
    from ..cli.numbers import fraction as parse_fraction
    from ..cli.options import RUN_OPTIONS, RunCommand, output_option, pop_settings, run_options, which_workload
    from ..cli.output import OutputPath, format_option, print_json, print_note, print_rows, to_csv
    from ..cli.output import heading as print_heading
    from ..cli.progress import Progress as RunProgress
    from ..cli.run import RunCall
    from ..cli.streams import control as control_code
    from ..cli.streams import visible_json
    from ..cli.terminal import render as render_terminal
    from ..cli.workspace import Workspace, load_workspace, path_or_run
    from ..config.install import Install
    from ..config.profiles import Config, load_config
    from ..config.request import Request, check_tags, parse_pairs
    from ..errors import imported
    from ..measure.window import check as check_window
    from ..model import Observed
    from ..phrases import format_number
    from ..plugins.manager import Plugins
    from ..plugins.manager import load as load_plugins
    from ..record.folder import Record as RunRecord
    from ..record.folder import Recorded, Run, SweepMark
    from ..record.history import History, Selection
    from ..record.host import current_user
    from ..record.names import tag_named
    from ..resolve import resolve
    from ..resolve.rules import common_findings
    from ..run.configuration import read_final
    from ..run.pipeline import Runner
    from ..run.remeasure import current_status, refresh_result

PLACES = {
    "catalog.references": "PublishedReferences:Published",
    "catalog.scales": "evaluate_scale:evaluate scales_of:scales",
    "cli.cases": "Case print_cases",
    "cli.completion": "RUN_ARGUMENT:RUN WORKLOAD_ARGUMENT:WORKLOAD",
    "cli.explicit_options": "explicit_options",
    "cli.extensions": "Extension",
    "cli.log_reading": "LogReading",
    "cli.main": "Verbs",
    "cli.numbers": "NumberAbove:Above parse_fraction:fraction",
    "cli.options": "RUN_OPTIONS RunCommand output_option pop_settings run_options which_workload",
    "cli.output": "OutputPath format_option print_heading:heading print_json print_note print_rows to_csv",
    "cli.progress": "RunProgress:Progress",
    "cli.run": "RunCall",
    "cli.streams": "control_code:control visible_json",
    "cli.terminal": "render_terminal:render",
    "cli.workspace": "Workspace load_workspace path_or_run",
    "config.install": "Install",
    "config.profiles": "Config load_config",
    "config.request": "Request check_tags parse_pairs",
    "errors": "imported",
    "measure.window": "check_window:check",
    "model": "Observed",
    "phrases": "format_number",
    "plugins.manager": "Plugins load_plugins:load",
    "record.folder": "Recorded Run RunRecord:Record SweepMark",
    "record.history": "History Selection",
    "record.host": "current_user",
    "record.names": "tag_named",
    "resolve": "resolve",
    "resolve.rules": "common_findings",
    "run.configuration": "read_final",
    "run.pipeline": "Runner",
    "run.remeasure": "current_status refresh_result",
}
"""The names by their module in llmbx, as `name:name_there` if they differ. The imports above are for type checkers."""

__getattr__, __dir__ = lazy(__name__, PLACES)
