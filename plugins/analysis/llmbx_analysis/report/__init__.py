"""What people read of runs: the terminal's lines, and reports.

`select` finds the runs that are meant, `gather` reads them into `subjects` (runs, joined to cells), `build` makes one
frozen `Report` of them: `verdicts` first, then `figures`, `curves`, `scaling`, `against`, `provenance` and the sections
of profilers. `html`, `markdown` and `rows` render it. `vega` says how a chart looks, `draw` draws it, `palette` has its
colours. `terminal`, `progress` and `preview` are what `llmbx run` prints.
"""
