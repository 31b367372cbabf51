# %% [markdown]
# # Is there a shortcut in my texts?
#
# From a table of texts to a decision. The shortcut here is a closing line; in yours it may be the name of a shop, a template, a disclaimer.

# %% tags=["skip-execution"]
# %pip install -q logit-correction
# Not on PyPI yet: make a wheel by "pip wheel --no-deps ." in a checkout, upload it, and name that file above.

# %% [markdown]
# ## A table of texts
#
# Any CSV or data frame with a column of texts and one of labels will do. This one is generated: reviews whose closing line goes with the
# verdict in 19 of 20. The set `signature` of the data source `Planted` knows the line of each review; we leave that column out.

# %%
import pandas as pd

from logit_correction.bench.planted import Planted

table = Planted(set="signature", rows=1200, seed=7).build()


def frame_of(split):
    rows = table.split[split].tolist()
    return pd.DataFrame(
        {
            "review": [table.texts[row] for row in rows],
            "verdict": [table.label_names[table.label[row]] for row in rows],
            "closing": [table.attribute_names[table.attribute[row]] for row in rows],  # for the last cell alone
        }
    )


reviews = pd.concat([frame_of("train"), frame_of("valid")], ignore_index=True)
later = frame_of("test")  # each closing line is as frequent with each verdict
for review in reviews["review"][:3]:
    print("-", review)

# %% [markdown]
# ## Audit
#
# By default the words of a text are counted. That needs no download and takes seconds. A language model works as well
# (`--data.tokenizer`, [your own data](../your-own-data.md#texts-numbers-and-other-tables)).

# %%
from logit_correction import audit, from_table

data = from_table(reviews[["review", "verdict"]], label="verdict", text="review", folder="data")
found = audit(data, "audit", epochs=15, threads=1)
found

# %% [markdown]
# ## Read the rows that conflict

# %%
conflicts = found.rows[found.rows["conflicting"].eq(True)].sort_values("score", ascending=False)
for row in conflicts.head(6).to_dict("records"):
    print(f"{row['label']}, looks {row['attribute']}: … {reviews['review'][row['row']][-60:]!r}")

# %% [markdown]
# The first words say one thing and the closing line the other. Who signs a review has no say in what it says: a shortcut. The page:
# [audit of the reviews](../gallery/texts-audit.html).
#
# ## Fix and check

# %%
from pathlib import Path

from logit_correction import RunConfig, train

fixed = train(RunConfig.read(Path("audit/fix.yaml")), "fixed")
ordinary = train(data, "ordinary", method="ERM", epochs=15, threads=1)
checked = audit(RunConfig.read(Path("audit/config.yaml")), "checked", run="fixed", shortcut=found.views)
print(checked.summary["sentence"])

# %% [markdown]
# We happen to know the closing lines of the later reviews, so we can count right answers for each verdict and each line:

# %%
pd.DataFrame(
    {
        name: {(g["label"], g["attribute"]): g["accuracy"] for g in run.evaluate(later, attribute="closing")["groups"]}
        for name, run in {"ERM": ordinary, "LC": fixed}.items()
    }
).round(3)

# %% [markdown]
# ## What to conclude
#
# - The ordinary classifier goes by the closing line: it is right where verdict and line agree, and wrong where they disagree. LC is about as
#   good in all four groups.
# - It costs where they agree: there the line did the work, and what LC knows is what these few reviews say without it.
#
# ## What not to conclude
#
# - These reviews are generated: the shortcut is one line, and views of words see it well. Subtler ones, such as a style, may not be found.
# - LC does not know the truth. It corrects by the view that you see in the audit; if that view is a reason for the label, say so with
#   `legitimate=[...]`.
