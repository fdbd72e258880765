"""Hooks of the MaxText plugin."""

from __future__ import annotations

from llmbx.api import lazy_hooks

globals().update(
    lazy_hooks(
        "llmbx_maxtext",
        register_settings="settings:MaxtextSettings",
        register_workloads="workloads:workloads",
        check_spec="rules:findings",
        prepare_image="launch:request",
        build_command="launch:launch",
        parse_log="grammar:formats",
        compute_flops="flops:of_run",
        expect_configuration="configuration:expected",
        configuration_program="configuration:program",
    )
)
