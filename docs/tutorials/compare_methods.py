# %% [markdown]
# # Compare methods as a researcher
#
# A grid of methods by variants of the data by seeds, its table, and what may be said about it. To be quick, there is one variant here.

# %% tags=["skip-execution"]
# %pip install -q logit-correction
# Not on PyPI yet: make a wheel by "pip wheel --no-deps ." in a checkout, upload it, and name that file above.

# %% [markdown]
# ## The grid
#
# A benchmark is a YAML file: rows by columns by seeds. `data_seeds` draws the data anew with each seed, so that the spread is that of the whole
# experiment and not of the initial weights alone.

# %%
from pathlib import Path

_ = Path("grid.yaml").write_text("""
title: Four methods on coloured digits
seeds: 3
data_seeds: true
common: {data: {name: Digits}, epochs: 20, batch_size: 64, threads: 1, device: cpu}
rows:
  ERM: {method: {name: ERM}}
  LfF: {method: {name: LfF}}
  LC: {method: {name: LC}}
  GroupDRO: {method: {name: GroupDRO}}
column_title: minority ratio, %
columns:
  "5": {data: {minority_ratio: 0.05}}
""")

# %% [markdown]
# The command is `logit-correction benchmark grid.yaml --out grid`. The same command goes on where it was stopped, and several machines
# may share the work on one folder.

# %%
import subprocess
import sys

command = [sys.executable, "-m", "logit_correction", "benchmark", "grid.yaml", "--out", "grid"]
done = subprocess.run(command, capture_output=True, text=True)
print(done.returncode, done.stderr[-300:] if done.returncode else "")

# %% [markdown]
# ## The table
#
# `table.csv` has a row for each run and each rule of selection; `table.md` has the means.

# %%
import pandas as pd

runs = pd.read_csv("grid/table.csv")
print(Path("grid/table.md").read_text())

# %% [markdown]
# ## Compare what read the same
#
# GroupDRO is given the attribute of every training row. ERM, LfF and LC are not. A table that puts them side by side without saying so compares
# two different problems.
#
# ## Is the difference larger than the spread?
#
# The seeds are paired: with one seed all methods see the same data. So look at the differences, seed by seed.

# %%
last = runs[runs["selection"].eq("last")]
pivot = last.pivot_table(index=["column", "seed"], columns="row", values="group_balanced")
(pivot.sub(pivot["ERM"], axis=0) * 100).round(1)

# %% [markdown]
# ## Which epoch?
#
# A grid judges the last epoch unless it says otherwise. `valid_average` stands beside it: the epoch of the best accuracy on validation rows which are as biased as
# training. It often prefers the epoch that leans most on the shortcut. No rule reads the test split.

# %%
runs.pivot_table(index="selection", columns="row", values="group_balanced").mul(100).round(1)

# %% [markdown]
# ## What to conclude
#
# - Which methods are ahead *on these data with these settings*, by more than the spread over the seeds.
#
# ## What not to conclude
#
# - That three seeds measure a spread well. They hardly do; five or more for a paper.
# - That a method is better in general. Digits are small, and 20 epochs are short for methods in stages. Nobody tuned anything here: tune all methods by the
#   same rule on validation rows (`logit-correction tune`), or none.
# - Anything about the worst group: a hundred groups of a few rows have a lowest one by chance alone.
