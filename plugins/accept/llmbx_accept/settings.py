"""Settings of acceptance: a site's limits of nodes, and whether runs leave suspected nodes out."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from llmbx.api import Option, Settings, Value


class SiteCheck(Value, frozen=True):
    """What a site changes of one check of `llmbx doctor --nodes`; `off` is the reason why it does not apply there."""

    off: str | None = None
    severity: Literal["error", "warning"] | None = None
    action: Literal["isolate", "reset", "watch"] | None = None
    limit: Any = None
    factor: float | None = None
    within: float | None = None


class AcceptSettings(Settings, frozen=True):
    """The table `[clusters.NAME.accept]`."""

    plugin: ClassVar[str] = "accept"

    exclude_suspects: Annotated[
        bool | None,
        Option(
            help="Leave out the nodes that `llmbx nodes --suspect` shows. [default: in sweeps and retries]",
            name="--exclude-suspects",
        ),
    ] = None
    checks: Annotated[
        dict[str, SiteCheck],
        Option(
            help="Changes of checks of nodes by their names: `{ off = REASON }`, or limit, factor, within, severity, "
            "action.",
            name="",
        ),
    ] = {}
