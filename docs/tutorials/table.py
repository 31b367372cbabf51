# %% [markdown]
# # Is there a shortcut in my table?
#
# In a table, a single column may give the label away. Some such columns are honest, others are accidents of how the table came about.

# %% tags=["skip-execution"]
# %pip install -q logit-correction
# Not on PyPI yet: make a wheel by "pip wheel --no-deps ." in a checkout, upload it, and name that file above.

# %% [markdown]
# ## A table
#
# People in twelve columns, generated, and the question whether they earn much. Among the columns is the version of the form that they
# filled in. One office used the new form and had the richer clients, but for one row in twenty.

# %%
import pandas as pd

from logit_correction.bench.planted import Planted

table = Planted(set="column", rows=2000, seed=3).build()
columns = {name: values for name, values in table.columns.items()}
label = [table.label_names[value] for value in table.label.tolist()]
everyone = pd.DataFrame(columns).assign(income=label)
known = everyone.iloc[table.split["train"].tolist() + table.split["valid"].tolist()].reset_index(drop=True)
later = everyone.iloc[table.split["test"].tolist()].reset_index(drop=True)  # each form as frequent with each income
known.head()

# %% [markdown]
# ## Audit

# %%
from logit_correction import audit, from_table

features = [name for name in known.columns if name != "income"]
data = from_table(known, label="income", features=features, folder="data")
found = audit(data, "audit", epochs=15, threads=1)
found

# %% [markdown]
# ## Reason or accident?
#
# The audit names a column. It cannot say whether that column *may* decide. These are the views that know the label well enough to be looked at:

# %%
signs = pd.DataFrame(found.summary["evidence"]["signs"])
signs[["view", "accuracy", "ratio", "follows_view", "rows"]].head(6).round(2)

# %% [markdown]
# A person's capital is a reason for a high income. The version of the form is an accident. Had the audit named a column that is a reason,
# we would run it again with `legitimate=["column:capital"]`, and it would look for the next one. The page:
# [audit of the table](../gallery/table-audit.html).
#
# ## Fix and check

# %%
from pathlib import Path

from logit_correction import RunConfig, train

fixed = train(RunConfig.read(Path("audit/fix.yaml")), "fixed")
ordinary = train(data, "ordinary", method="ERM", epochs=15, threads=1)
checked = audit(RunConfig.read(Path("audit/config.yaml")), "checked", run="fixed", shortcut=found.views)
print(checked.summary["sentence"])


# %%
def by_form(run):
    groups = run.evaluate(later, attribute="form_version")["groups"]
    return {(group["label"], group["attribute"]): group["accuracy"] for group in groups}


pd.DataFrame({"ERM": by_form(ordinary), "LC": by_form(fixed)}).round(3)

# %% [markdown]
# Why not just drop the column? Here that is simpler, and right. Take logit correction where the shortcut cannot be dropped: where it is spread over
# many columns, or is part of an image or a text.
#
# ## What to conclude
#
# - The classifier went by the form. After the fix, people whose form does not go with their income are judged better.
#
# ## What not to conclude
#
# - That the other columns are fair. A column can stand in for another one, and the audit looks at each by itself.
# - That a shortcut with few exceptions would have been found. With hardly any row in conflict the audit says `cannot tell`.
