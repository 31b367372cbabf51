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
# colour, except for one sheet in twelve. Next year the paper has any colour. `true_labels` holds the labels of next year, which the audit does not see.

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
names = list(papers)
colours = list(papers.values())
true_labels = {}
digits = load_digits()

for number, (image, digit) in enumerate(zip(digits.images, digits.target, strict=True)):
    if digit not in (1, 3, 4, 5, 7, 9):
        continue
    label = (1, 3, 4, 5, 7, 9).index(digit)
    is_next_year = random.random() < 0.3
    has_other_paper = random.random() < (5 / 6 if is_next_year else 0.08)
    paper = (label + random.integers(1, 6)) % 6 if has_other_paper else label
    ink = np.zeros((40, 40, 1))
    top, left = random.integers(5, 12, 2)
    ink[top : top + 24, left : left + 24] = np.kron(image / 16, np.ones((3, 3)))[..., None]
    photo = np.array(colours[paper]) * (1 - 0.45 * ink) + random.normal(0, 8, (40, 40, 3))
    file = Path("next-year" if is_next_year else f"photos/{names[label]}", f"{number:04}.png")
    if is_next_year:
        true_labels[str(file.resolve())] = names[label]
    file.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(photo.clip(0, 255).astype(np.uint8)).save(file)

print({folder.name: len(list(folder.glob("*.png"))) for folder in sorted(Path("photos").iterdir())}, len(true_labels))

# %% [markdown]
# ## Audit with new rows
#
# `photos` alone cannot show whether the colour of the paper is an accident. The new images can. The audit trains *candidates*: ordinary training (ERM),
# logit correction (LC) by what looks like a shortcut, and ERM that cannot see it. Then it compares their predictions on the new images.

# %%
from logit_correction import audit

photos = {"name": "ImageFolder", "root": "photos", "size": 20}
result = audit(photos, "audit", new_rows="next-year", epochs=15, threads=1)
result

# %% [markdown]
# There is a distribution shift: candidates differ from ERM much more often on new images than on images like the training data. Which of them is
# right, a few labels show.
#
# ## Label a few new images
#
# The audit sampled images on which the candidates disagree, and others at random, and wrote them to `sheet.csv`. The page [`audit/report.html`](../gallery/photos-audit.html) shows
# them, and takes the labels by keys or clicks. `result.ask(40)` would add 20 further ones.

# %%
import pandas as pd

sheet = pd.read_csv("audit/sheet.csv")
contact_sheet = Image.new("RGB", (800, 160), "white")
for place, path in enumerate(sheet["path"]):
    contact_sheet.paste(Image.open(path).resize((72, 72)), (place % 10 * 80, place // 10 * 80))
contact_sheet

# %% [markdown]
# Fill in the column `answer`: the label of each image, or nothing if you do not know it. Here we fill in 16 from `true_labels`.
# With your own data you look at the images.

# %%
sheet["answer"] = [true_labels[path] if place < 16 else "" for place, path in enumerate(sheet["path"])]
result.answer(sheet)

# %% [markdown]
# The answers weigh the candidates. The interval shows how certain the gain is. The table has all candidates, the best first.
# Its columns: how often each differs from ERM on images like the training data and on new ones, its accuracy on the former, its estimated gain, and its weight in the average.

# %%
candidates = (
    pd.DataFrame(result.summary["new_rows"]["candidates"]).set_index("name").sort_values("gain", ascending=False)
)
candidates[["differs_usual", "differs_new", "like_training", "gain", "weight"]].round(2)

# %% [markdown]
# ## Fix
#
# `fix` trains the weighted average, and the answers correct it further where that helps. `result.advised_config` shows its options, and
# `audit/fix.yaml` holds them for the command line.

# %%
fixed = result.fix("fixed")
print(fixed.config.method.name, "of", len(fixed.config.method.options.get("members", [])), "candidates")

# %% [markdown]
# ## Check
#
# We also train ERM. Both predict the new images that have no answer. We know their labels, so we can count.

# %%
from logit_correction import train

erm = train(photos, "erm", method="ERM", epochs=15, threads=1)
unanswered = {path: label for path, label in true_labels.items() if path not in set(sheet["path"])}


def compute_accuracy(run):
    return (run.predict([Path(path) for path in unanswered]) == list(unanswered.values())).mean()


runs = {"ERM": erm, "fix": fixed}
pd.DataFrame(
    {
        "this year's test": {name: run.report.test.average for name, run in runs.items()},
        "next year": {name: compute_accuracy(run) for name, run in runs.items()},
    }
).round(3)

# %% [markdown]
# ## What to conclude
#
# - ERM relied on the colour of the paper. A few labels of new images showed it, and weighed the corrections.
# - This year's test images are as biased as the training images, so both classifiers are about as accurate there. Next year's images do.
#
# ## What not to conclude
#
# - The fix is better on images like next year's, not on images from anywhere.
# - A correction that no candidate makes has no weight.
# - This is one seed. [New rows decide](../new-rows.md) has the rest.
