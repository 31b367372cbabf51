# %% [markdown]
# # Texts
#
# Start with a table of texts and end with a classifier for new ones. The shortcut here is a closing line. In your texts it may be the name of
# a shop, a template or a disclaimer.
#
# The same in four commands, if your tables are `reviews.csv` and `later.csv`. After the first, fill in labels in `audit/sheet.csv`. This page runs
# in 15 s on one core of an AMD EPYC.
#
# ```bash
# logit-correction audit --data reviews.csv --data.label verdict --data.text review --epochs 15 --new-rows later.csv --out audit
# logit-correction audit --answers audit/sheet.csv --out audit
# logit-correction train --config audit/fix.yaml --out fixed
# logit-correction predict fixed later.csv --out answers.csv
# ```

# %% tags=["skip-execution"]
# %pip install -q .
# Run this in a checkout, or write its path in place of the dot.

# %% [markdown]
# ## A table of texts
#
# Take any CSV or data frame with a column of texts and one of labels. This one is generated. The closing line of a review agrees with its
# verdict in 19 of 20 reviews. Later reviews end in any line. We know each line and leave that column out.

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
# ## Audit with new rows
#
# The new rows are the later reviews without their verdict. By default the words of a text are counted. That needs no download and takes seconds.
# A [language model](../networks.md#texts) works too.
#
# The audit trains *candidates*: ordinary training (ERM), logit correction (LC) by what predicts the verdict well, and ERM without the words
# that do. Then it compares what they say of the new rows.

# %%
from logit_correction import audit, from_table

data = from_table(reviews[["review", "verdict"]], label="verdict", text="review", folder="data")
found = audit(data, "audit", new_rows=later[["review"]], epochs=15, threads=1)
found

# %% [markdown]
# ## Label a few new reviews
#
# The audit chose the reviews that tell most. Read them and fill in the column `answer`.

# %%
sheet = pd.read_csv("audit/sheet.csv")
for review in sheet["content"][:4]:
    print("-", review)

# %% [markdown]
# The first words say one thing and the closing line another. Here we know the verdicts, so we take them from `later`.
# [The page of this audit](../gallery/texts-audit.html) shows what the answers come to.

# %%
sheet["answer"] = later["verdict"].loc[sheet["row"]].tolist()
found.answer(sheet)

# %% [markdown]
# The interval is wide, so ask again. Answers of all rounds count together.

# %%
again = found.ask(40)
again["answer"] = later["verdict"].loc[again["row"]].tolist()
found.answer(again)

# %% [markdown]
# These are all candidates, the best first:

# %%
candidates = (
    pd.DataFrame(found.summary["new_rows"]["candidates"]).set_index("name").sort_values("gain", ascending=False)
)
candidates[["differs_usual", "differs_new", "like_training", "gain", "gain_low", "gain_high"]].round(2)

# %% [markdown]
# ## Fix and check
#
# `fix` trains what was chosen. We also train ERM, and compare both on the later reviews that nobody was asked about. We know their closing
# lines, so we can compare the accuracy of each group.

# %%
from logit_correction import train

fixed = found.fix("fixed")
ordinary = train(data, "ordinary", method="ERM", epochs=15, threads=1)
left = later.drop(index=[*sheet["row"], *again["row"]])


def by_line(run):
    groups = run.evaluate(left, attribute="closing")["groups"]
    return {(group["label"], group["attribute"]): group["accuracy"] for group in groups}


pd.DataFrame({"ERM": by_line(ordinary), "chosen": by_line(fixed)}).round(3)

# %% [markdown]
# ## What to conclude
#
# - ERM follows the closing line. It is right where verdict and line agree, and often wrong where they disagree.
# - What was chosen is more even over the four groups. It loses accuracy where verdict and line agree. This is the price.
#
# ## What not to conclude
#
# - These reviews are generated, and views of words see the closing line well. Subtler shortcuts, such as a style, may not be found.
# - Answers speak for reviews like these. If your texts change again, ask again. [New rows decide](../new-rows.md) has the rest.
