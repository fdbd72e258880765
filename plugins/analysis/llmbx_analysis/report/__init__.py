"""Reports on finished runs.

`selection` finds the runs, `gather` reads them, `cells` groups them by configuration, and `build` creates a `Report`
from them: `verdicts`, then `figures`, `curves`, `scaling`, `comparisons`, `provenance` and the sections of profilers.
`html`, `markdown` and `rows` render it. `vega` specifies the charts, `draw` draws them, `palette` has the colors.
"""
