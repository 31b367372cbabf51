"""Attribute estimators: where the attribute of every training row comes from.

Each estimator is one file and one entry of ``ESTIMATORS``. The package adds ``Auto``, the search for a shortcut, which
stands in a layer above.
"""

from __future__ import annotations

_HERE = "logit_correction.attributes."

#: Name -> dotted path and one line for ``list``. The dotted path of your own estimator works wherever a name does.
ESTIMATORS: dict[str, tuple[str, str]] = {
    "Online": (_HERE + "online.Online", "the paper's: a biased network trained with the robust one"),
    "CrossFitted": (
        _HERE + "cross_fitted.CrossFitted",
        "biased networks, each estimating rows it was not trained on",
    ),
    "Given": (_HERE + "given.Given", "from a file or a column, row by row; rows without one are not corrected"),
    "TrueAttributes": (_HERE + "given.TrueAttributes", "the attribute labels of the training rows, which it reads"),
    "Clusters": (_HERE + "clusters.Clusters", "separates attribute values of one label by a biased network (LC+)"),
    "XRM": (_HERE + "xrm.XRM", "twin networks that imitate each other's held-out mistakes (Pezeshki et al. 2024)"),
    "EIIL": (_HERE + "mst.EIIL", "the environments in which an early network is least invariant (Creager et al. 2021)"),
    "MST": (_HERE + "mst.MST", "what a network answers that overfits a tenth of the rows (Zhao and Zhang 2026)"),
}
