# %% [markdown]
# # Texts
#
# Start with a table of texts and end with a decision. The shortcut here is a closing line. In your texts it may be the name of a shop, a
# template or a disclaimer.
#
# The same in four commands, if your table is `reviews.csv` (31 s on one core of an AMD EPYC):
#
# ```bash
# logit-correction audit --data reviews.csv --data.label verdict --data.text review --out audit
# logit-correction train --config audit/fix.yaml --out fixed
# logit-correction audit --run fixed --shortcut closing --out audit-of-fixed
# logit-correction predict fixed new.csv --out answers.csv
# ```

# %% tags=["skip-execution"]
# %pip install -q .
# The package is on no index yet, so run this in a checkout. Elsewhere write the path to the checkout in place of the dot.

# %% [markdown]
# ## A table of texts
#
# Take any CSV or data frame with a column of texts and one of labels. This one is generated. The closing line of a review agrees with its
# verdict in 19 of 20 reviews. We know each line and leave that column out.

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
# By default the words of a text are counted. That needs no download and takes seconds. A [language model](../networks.md#texts) works too.

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
# The first words say one thing and the closing line another. The line is an accident: a shortcut.
# [Here is the page of this audit](../gallery/texts-audit.html).
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
# We know the closing lines of the later reviews, so we can compare the accuracy of each group:

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
# - ERM follows the closing line. It is right where verdict and line agree, and often wrong where they disagree.
# - LC is about as good in all four groups. It loses accuracy where verdict and line agree. This is the price.
#
# ## What not to conclude
#
# - These reviews are generated, and views of words see the closing line well. Subtler shortcuts, such as a style, may not be found.
# - LC does not know the truth. It corrects by the view in the audit. If that view is a legitimate cause of the label, pass `legitimate=[...]`.
