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
    from ..cli.completion import RUN as RUN_ARGUMENT
    from ..cli.completion import WORKLOAD as WORKLOAD_ARGUMENT
    from ..cli.explicit_options import explicit_options as explicit_options
    from ..cli.extensions import Extension as Extension
    from ..cli.flow import worst_exit_code as worst_exit_code
    from ..cli.formatting import figure as format_figure
    from ..cli.formatting import number as format_number
    from ..cli.formatting import quantity as format_quantity
    from ..cli.formatting import short as format_short
    from ..cli.formatting import slug as slug
    from ..cli.formatting import text as format_value
    from ..cli.junit import Case as JunitCase
    from ..cli.junit import Verdict as JunitVerdict
    from ..cli.junit import figures as junit_figures
    from ..cli.junit import print_cases as print_junit
    from ..cli.junit import verdict as junit_verdict
    from ..cli.numbers import Above as NumberAbove
    from ..cli.numbers import fraction as parse_fraction
    from ..cli.options import RUN_OPTIONS as RUN_OPTIONS
    from ..cli.options import Workspace as Workspace
    from ..cli.options import load_workspace as load_workspace
    from ..cli.options import output_option as output_option
    from ..cli.options import path_or_run as path_or_run
    from ..cli.options import run_options as run_options
    from ..cli.options import which_workload as which_workload
    from ..cli.output import Row as OutputRow
    from ..cli.output import Target as OutputFormat
    from ..cli.output import cell as format_cell
    from ..cli.output import format_option as format_option
    from ..cli.output import format_option_with as format_option_with
    from ..cli.output import heading as print_heading
    from ..cli.output import print_json as print_json
    from ..cli.output import print_rows as print_rows
    from ..cli.output import print_table as print_table
    from ..cli.output import to_csv as to_csv
    from ..cli.plugin_options import RunCommand as RunCommand
    from ..cli.plugin_options import pop_settings as pop_settings
    from ..cli.progress import Progress as RunProgress
    from ..cli.run import RunCall as RunCall
    from ..cli.streams import control as control_code
    from ..cli.terminal import render as render_terminal
    from ..cli.training_log import TrainingLog as TrainingLog
    from ..config.install import Install as Install
    from ..config.profiles import Config as Config
    from ..config.profiles import Profile as Profile
    from ..config.profiles import choose_profile as choose_profile
    from ..config.profiles import load_config as load_config
    from ..config.request import Request as Request
    from ..config.request import from_environ as request_from_environ
    from ..config.request import parse_pairs as parse_pairs
    from ..history import COLUMNS as RUN_COLUMNS
    from ..history import find_run as find_run
    from ..history import known_tags as known_tags
    from ..history import select as query_runs
    from ..history import tag_named as tag_named
    from ..history.loaded import row_of as run_row
    from ..history.loaded import selection as runs_selection
    from ..history.query import Selection as Selection
    from ..history.refresh import current_status as current_status
    from ..history.refresh import refresh_result as refresh_result
    from ..history.remeasure import rewindowed as rewindowed
    from ..history.tags import check_tags as check_tags
    from ..history.tags import tags_of as tags_of
    from ..measure.measures import FIELDS as MEASURE_FIELDS
    from ..measure.measures import rate_values as rate_values
    from ..measure.measures import timed as timed_rates
    from ..measure.window import check as check_window
    from ..optional import imported as imported
    from ..plugins.manager import Plugins as Plugins
    from ..plugins.manager import load as load_plugins
    from ..record.folder import Record as RunRecord
    from ..record.folder import Run as Run
    from ..record.folder import SweepMark as SweepMark
    from ..record.folder import decode_record as decode_record
    from ..record.folder import pretty as pretty_json
    from ..record.host import current_user as current_user
    from ..resolve import resolve as resolve
    from ..resolve.rules import common_findings as common_findings
    from ..run.configuration import read_final as read_final
    from ..run.pipeline import Runner as Runner

PLACES = {
    "PublishedReferences": "catalog.references:Published",
    "evaluate_scale": "catalog.scales:evaluate",
    "scales_of": "catalog.scales:scales",
    "RUN_ARGUMENT": "cli.completion:RUN",
    "WORKLOAD_ARGUMENT": "cli.completion:WORKLOAD",
    "explicit_options": "cli.explicit_options",
    "Extension": "cli.extensions",
    "worst_exit_code": "cli.flow",
    "format_figure": "cli.formatting:figure",
    "format_number": "cli.formatting:number",
    "format_quantity": "cli.formatting:quantity",
    "format_short": "cli.formatting:short",
    "format_value": "cli.formatting:text",
    "slug": "cli.formatting",
    "JunitCase": "cli.junit:Case",
    "JunitVerdict": "cli.junit:Verdict",
    "junit_figures": "cli.junit:figures",
    "junit_verdict": "cli.junit:verdict",
    "print_junit": "cli.junit:print_cases",
    "NumberAbove": "cli.numbers:Above",
    "parse_fraction": "cli.numbers:fraction",
    "RUN_OPTIONS": "cli.options",
    "Workspace": "cli.options",
    "load_workspace": "cli.options",
    "output_option": "cli.options",
    "path_or_run": "cli.options",
    "run_options": "cli.options",
    "which_workload": "cli.options",
    "OutputFormat": "cli.output:Target",
    "OutputRow": "cli.output:Row",
    "format_cell": "cli.output:cell",
    "format_option": "cli.output",
    "format_option_with": "cli.output",
    "print_heading": "cli.output:heading",
    "print_json": "cli.output",
    "print_rows": "cli.output",
    "print_table": "cli.output",
    "to_csv": "cli.output",
    "RunCommand": "cli.plugin_options",
    "pop_settings": "cli.plugin_options",
    "RunProgress": "cli.progress:Progress",
    "RunCall": "cli.run",
    "control_code": "cli.streams:control",
    "render_terminal": "cli.terminal:render",
    "TrainingLog": "cli.training_log",
    "Install": "config.install",
    "Config": "config.profiles",
    "Profile": "config.profiles",
    "choose_profile": "config.profiles",
    "load_config": "config.profiles",
    "Request": "config.request",
    "parse_pairs": "config.request",
    "request_from_environ": "config.request:from_environ",
    "RUN_COLUMNS": "history:COLUMNS",
    "find_run": "history",
    "known_tags": "history",
    "query_runs": "history:select",
    "tag_named": "history",
    "run_row": "history.loaded:row_of",
    "runs_selection": "history.loaded:selection",
    "Selection": "history.query",
    "current_status": "history.refresh",
    "refresh_result": "history.refresh",
    "rewindowed": "history.remeasure",
    "check_tags": "history.tags",
    "tags_of": "history.tags",
    "MEASURE_FIELDS": "measure.measures:FIELDS",
    "rate_values": "measure.measures",
    "timed_rates": "measure.measures:timed",
    "check_window": "measure.window:check",
    "imported": "optional",
    "Plugins": "plugins.manager",
    "load_plugins": "plugins.manager:load",
    "Run": "record.folder",
    "RunRecord": "record.folder:Record",
    "SweepMark": "record.folder",
    "decode_record": "record.folder",
    "pretty_json": "record.folder:pretty",
    "current_user": "record.host",
    "resolve": "resolve",
    "common_findings": "resolve.rules",
    "read_final": "run.configuration",
    "Runner": "run.pipeline",
}
"""Name -> its module in llmbx, with its name there if that differs. The imports above are for type checkers."""

__getattr__, __dir__ = lazy(__name__, PLACES)
