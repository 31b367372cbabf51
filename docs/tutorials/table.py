# %% [markdown]
# # A table
#
# In a table, a single column may predict the label. Some such columns are legitimate causes. Others are accidents of how the table came about.
# New rows tell which.
#
# The same in four commands, if your tables are `people.csv` and `later.csv`. After the first, fill in labels in `audit/sheet.csv`. This page runs
# in 13 s on one core of an AMD EPYC.
#
# ```bash
# logit-correction audit --data people.csv --data.label income --epochs 15 --new-rows later.csv --out audit
# logit-correction audit --answers audit/sheet.csv --out audit
# logit-correction train --config audit/fix.yaml --out fixed
# logit-correction predict fixed later.csv --out answers.csv
# ```

# %% tags=["skip-execution"]
# %pip install -q .
# Run this in a checkout, or write its path in place of the dot.

# %% [markdown]
# ## Twelve columns
#
# These people are generated. The label is whether they earn much. One column is the version of the form that they filled in. One office used
# the new form and had the richer clients, except for one row in twenty. Later all offices use both forms.

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
# ## Audit with new rows
#
# The new rows are later people, whose income the audit does not see. It trains *candidates*: ordinary training (ERM), logit correction (LC) by
# the columns that predict the label best, and ERM without these columns. Then it compares what they say of the new rows.

# %%
from logit_correction import audit, from_table

features = [name for name in known.columns if name != "income"]
data = from_table(known, label="income", features=features, folder="data")
found = audit(data, "audit", new_rows=later[features], epochs=15, threads=1)
found

# %% [markdown]
# ## Label a few new rows
#
# The audit chose the rows that tell most. Fill in their column `answer`, or leave it empty if you do not know. Here we know the truth, so we take
# it from `later`. The [page of this audit](../gallery/table-audit.html) shows the rows, too.

# %%
sheet = pd.read_csv("audit/sheet.csv")
sheet["answer"] = later["income"].loc[sheet["row"]].tolist()
sheet.head(3)

# %%
found.answer(sheet)

# %% [markdown]
# A person's capital is a legitimate cause of a high income. The version of the form is an accident. These are the candidates, the best first:

# %%
candidates = (
    pd.DataFrame(found.summary["new_rows"]["candidates"]).set_index("name").sort_values("gain", ascending=False)
)
candidates[["differs_usual", "differs_new", "like_training", "gain", "gain_low", "gain_high"]].round(2)

# %% [markdown]
# ## Fix and check
#
# `fix` trains what was chosen. We also train ERM, and compare both on the later rows that nobody was asked about.

# %%
from logit_correction import train

fixed = found.fix("fixed")
ordinary = train(data, "ordinary", method="ERM", epochs=15, threads=1)
left = later.drop(index=sheet["row"])


def by_form(run):
    groups = run.evaluate(left, attribute="form_version")["groups"]
    return {(group["label"], group["attribute"]): group["accuracy"] for group in groups}


pd.DataFrame({"ERM": by_form(ordinary), "chosen": by_form(fixed)}).round(3)

# %% [markdown]
# ## What to conclude
#
# - ERM relied on the form. What was chosen is right more often for people whose form conflicts with their income.
# - One candidate simply drops the column. LC is for shortcuts that you cannot drop, because they are spread over many columns.
#
# ## What not to conclude
#
# - The other columns need not be fair. A column can stand in for another.
# - Answers speak for rows like these. If your rows change again, ask again. [New rows decide](../new-rows.md) has the rest.
