"""Sweeps: many runs from one plan, run until every cell has its repeats.

`plan` reads and expands the plan, `cells` resolves and checks its cells, `cost` estimates the GPU-hours, `store` saves
the sweep, `state` reads which runs exist, `start` starts one run, `drive` runs the sweep, `summary` joins the results.
"""
