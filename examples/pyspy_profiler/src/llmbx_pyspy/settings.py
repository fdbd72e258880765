"""Settings of py-spy: the options `--pyspy-…`, and the table `[clusters.NAME.pyspy]`."""

from typing import Annotated, ClassVar

from llmbx.api import Option, Positive, Settings


class PyspySettings(Settings, frozen=True):
    """How stacks are sampled."""

    plugin: ClassVar[str] = "pyspy"

    command: Annotated[str, Option(help="The py-spy program. [default: py-spy]", variables=("LLMBX_PYSPY",))] = "py-spy"
    rate: Annotated[Positive, Option(help="Samples per second. [default: 100]")] = 100
    ranks: Annotated[str, Option(help="Ranks to sample: all, first, or 0,8-15. [default: all]")] = "all"
