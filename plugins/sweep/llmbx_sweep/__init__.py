"""A sweep: many runs from one plan, kept going until every cell has its repeats.

`plan` says what is wanted, `cells` resolves and checks it, `cost` says what it takes, `store` keeps it, `census` sees
what is there already, `start` starts one run, `drive` keeps them going, `summary` joins the results.
"""
