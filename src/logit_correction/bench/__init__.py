"""The laboratory: the data sets of the paper, sets with a planted shortcut, and grids of runs. Nothing imports it."""
