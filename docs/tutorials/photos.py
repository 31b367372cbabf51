# %% [markdown]
# # Your first audit: photos
#
# Start with a folder of labelled images and some new ones without labels. End with a classifier that works on the new ones.
#
# The same in three commands. After the first, fill in labels in `audit/sheet.csv`. This page runs in 56 s on one core of an AMD EPYC.
#
# ```bash
# logit-correction audit --data photos --data.size 20 --epochs 15 --new-rows next-year --out audit
# logit-correction train --data photos --data.size 20 --epochs 15 --answers audit/sheet.csv --out fixed
# logit-correction predict fixed next-year --out answers.csv
# ```

# %% tags=["skip-execution"]
# %pip install -q .
# Run this in a checkout, or write its path in place of the dot.

# %% [markdown]
# ## Two folders of images
#
# Take your own folders and skip this cell: `photos`, with one subfolder of images per label, and `next-year`, with images on which you will use
# the model. To follow without any, run it. It draws handwritten digits on paper. This year each clerk writes one digit, on paper of one
# colour, except for one sheet in twelve. Next year the paper has any colour. `truth` holds the labels of next year, which the audit does not see.

# %%
from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

random = np.random.default_rng(0)
papers = {
    "one": (245, 225, 190),
    "three": (200, 225, 245),
    "four": (205, 240, 200),
    "five": (240, 205, 215),
    "seven": (235, 235, 235),
    "nine": (225, 210, 245),
}
names, colours, truth = list(papers), list(papers.values()), {}
digits = load_digits()

for number, (image, digit) in enumerate(zip(digits.images, digits.target, strict=True)):
    if digit not in (1, 3, 4, 5, 7, 9):
        continue
    label = (1, 3, 4, 5, 7, 9).index(digit)
    later = random.random() < 0.3
    other = random.random() < (5 / 6 if later else 0.08)
    paper = (label + random.integers(1, 6)) % 6 if other else label
    ink, (y, x) = np.zeros((40, 40, 1)), random.integers(5, 12, 2)
    ink[y : y + 24, x : x + 24] = np.kron(image / 16, np.ones((3, 3)))[..., None]
    sheet = np.array(colours[paper]) * (1 - 0.45 * ink) + random.normal(0, 8, (40, 40, 3))
    file = Path("next-year" if later else f"photos/{names[label]}", f"{number:04}.png")
    truth |= {str(file.resolve()): names[label]} if later else {}
    file.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(sheet.clip(0, 255).astype(np.uint8)).save(file)

print({folder.name: len(list(folder.glob("*.png"))) for folder in sorted(Path("photos").iterdir())}, len(truth))

# %% [markdown]
# ## Audit with new rows
#
# Nobody can tell from `photos` alone whether the paper may decide. The new images can. The audit trains *candidates*: ordinary training (ERM),
# logit correction (LC) by what looks like a shortcut, and ERM that cannot see it. Then it compares what they say of the new images.

# %%
from logit_correction import audit

photos = {"name": "ImageFolder", "root": "photos", "size": 20}
found = audit(photos, "audit", new_rows="next-year", epochs=15, threads=1)
found

# %% [markdown]
# Something has changed: candidates contradict ERM much more often on new images than on images like the training data. This does not say who is
# right. A few labels do.
#
# ## Label a few new images
#
# The audit chose the images that tell most, and wrote them to `sheet.csv`. The page [`audit/report.html`](../gallery/photos-audit.html) shows
# them. `found.ask(40)` would add 20 further ones.

# %%
import pandas as pd

sheet = pd.read_csv("audit/sheet.csv")
strip = Image.new("RGB", (800, 160), "white")
for place, path in enumerate(sheet["path"]):
    strip.paste(Image.open(path).resize((72, 72)), (place % 10 * 80, place // 10 * 80))
strip

# %% [markdown]
# Fill in the column `answer`: the label of each image, or nothing if you do not know it. Here we know the truth, so we fill in 16 from `truth`.
# With your own data you look at the images.

# %%
sheet["answer"] = [truth[path] if place < 16 else "" for place, path in enumerate(sheet["path"])]
found.answer(sheet)

# %% [markdown]
# The answers decide. The interval says how sure the choice is. These are all candidates, the best first. The first two columns say how often
# each contradicts ERM, the third its accuracy on images like the training data:

# %%
candidates = (
    pd.DataFrame(found.summary["new_rows"]["candidates"]).set_index("name").sort_values("gain", ascending=False)
)
candidates[["differs_usual", "differs_new", "like_training", "gain", "gain_low", "gain_high"]].round(2)

# %% [markdown]
# ## Fix
#
# `fix` trains what was chosen. `found.advised` shows its options, and `audit/fix.yaml` holds them for the command line.

# %%
fixed = found.fix("fixed")
print(fixed.config.method.name, fixed.config.training.leave_out)

# %% [markdown]
# ## Check
#
# We also train ERM. Both predict the new images that nobody was asked about. We know their labels, so we can count.

# %%
from logit_correction import train

ordinary = train(photos, "ordinary", method="ERM", epochs=15, threads=1)
asked = set(sheet["path"])
left = {path: label for path, label in truth.items() if path not in asked}


def right(run):
    return (run.predict([Path(path) for path in left]) == list(left.values())).mean()


runs = {"ERM": ordinary, "chosen": fixed}
pd.DataFrame(
    {
        "this year's test": {name: run.report.test.average for name, run in runs.items()},
        "next year": {name: right(run) for name, run in runs.items()},
    }
).round(3)

# %% [markdown]
# ## What to conclude
#
# - ERM relied on the colour of the paper. A few labels of new images found that out, and chose what to train.
# - This year's test images are as biased as the training images, so they hardly tell the two classifiers apart. Next year's images do.
#
# ## What not to conclude
#
# - The answers do not say why. The chosen candidate is better on next year's images, not on images from anywhere.
# - A correction that no candidate makes cannot be chosen.
# - This is one seed. [New rows decide](../new-rows.md) has the rest.
