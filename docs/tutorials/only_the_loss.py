# %% [markdown]
# # Only the loss, in my own loop
#
# You have a PyTorch loop and an attribute, known or estimated. Then all that you need is a table of counts and one loss.

# %% tags=["skip-execution"]
# %pip install -q logit-correction
# Not on PyPI yet: make a wheel by "pip wheel --no-deps ." in a checkout, upload it, and name that file above.

# %% [markdown]
# ## Data with a shortcut
#
# Digits in colours: in 97 of 100 training images the colour goes with the digit. In the test each digit comes in every colour.

# %%
import torch

from logit_correction.bench.digits import Digits

table = Digits(minority_ratio=0.03).build()
train, test = table.split["train"], table.split["test"]
inputs, label, attribute = table.inputs.fetch(train), table.label[train], table.attribute[train]
test_inputs, test_label, test_attribute = table.inputs.fetch(test), table.label[test], table.attribute[test]
print(inputs.shape, "training images;", int((label != attribute).sum()), "of them conflict with their colour")

# %% [markdown]
# ## The prior
#
# How often does each pair of label and attribute occur? `smoothing` keeps empty groups from minus infinity.

# %%
from logit_correction.functional import count_prior

prior = count_prior(label, attribute, num_labels=10, num_attributes=10, smoothing=0.3)
print(prior.shape, "sums to", round(prior.sum().item(), 6))

# %% [markdown]
# ## The loop
#
# The same loop twice. The only difference is the criterion.

# %%
from logit_correction.losses import LogitCorrectedLoss


def trained(criterion, epochs=60):
    torch.manual_seed(0)
    network = torch.nn.Sequential(
        torch.nn.Flatten(), torch.nn.Linear(192, 100), torch.nn.ReLU(), torch.nn.Linear(100, 10)
    )
    optimizer = torch.optim.Adam(network.parameters(), lr=2e-3)
    for _ in range(epochs):
        for rows in torch.randperm(len(label)).split(64):
            loss = criterion(network(inputs[rows]), rows)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return network


plain = torch.nn.CrossEntropyLoss()
corrected = LogitCorrectedLoss(prior)
erm = trained(lambda logits, rows: plain(logits, label[rows]))
lc = trained(lambda logits, rows: corrected(logits, label[rows], attribute[rows]))

# %% [markdown]
# ## Judge by group
#
# Predict with the plain logits. The prior belongs to the training alone; adding it at test time would undo the correction.

# %%
import pandas as pd

from logit_correction.functional import group_balanced_accuracy, group_membership


def judged(network):
    with torch.no_grad():
        right = network(test_inputs).argmax(1)
    groups = group_membership(test_label, test_attribute, 10, 10)
    agrees = test_label == test_attribute
    return {
        "colour agrees": (right == test_label)[agrees].double().mean().item(),
        "colour conflicts": (right == test_label)[~agrees].double().mean().item(),
        "group-balanced": group_balanced_accuracy(right, test_label, groups).item(),
    }


pd.DataFrame({"ERM": judged(erm), "LC": judged(lc)}).T.round(3)

# %% [markdown]
# ## Rows whose attribute nobody knows
#
# Give them the attribute -1: they get plain cross-entropy. Here only half of the attributes are known.

# %%
half = attribute.clone()
half[torch.randperm(len(half), generator=torch.Generator().manual_seed(0))[: len(half) // 2]] = -1
known = half >= 0
half_prior = LogitCorrectedLoss(count_prior(label[known], half[known], 10, 10, smoothing=0.3))
lc_half = trained(lambda logits, rows: half_prior(logits, label[rows], half[rows]))
pd.DataFrame({"ERM": judged(erm), "LC, half known": judged(lc_half), "LC": judged(lc)}).T.round(3)

# %% [markdown]
# ## What to conclude
#
# - One line changes, and the conflicting images are read better.
# - Where nobody knows an attribute, take a whole method, which estimates it: [your own training loop](../your-own-loop.md).
#
# ## What not to conclude
#
# - The images that conflict number a few dozen. What the network reaches on them is limited by their number, not only by the loss.
# - One seed. Repeat with others before you believe a difference of a few points.
