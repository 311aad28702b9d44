"""The command `run`: from a recipe's tasks and pile to its tables.

`file` reads a recipe, `recipe` is what it says; `cells` is the grid of its table, `work` the steps
that the cells need, each under a digest and once; `storing` writes the tasks, `steps` are the jobs,
`running` makes what `outstanding` says is missing; `judging` compares, `linking` holds forecasts
against scores, `reckoning` adds up costs, `tabling` writes the tables.
"""
