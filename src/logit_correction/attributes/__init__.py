"""Attribute estimators: where the attribute of every training row comes from. One file each, and one line here."""

from __future__ import annotations

#: Name -> path from here and one line. A dotted path of your own works wherever a name does.
ESTIMATORS: dict[str, tuple[str, str]] = {
    "Auto": ("auto.Auto", "looks for a shortcut by named views, estimates it, and abstains where there is none"),
    "Online": ("online.Online", "the paper's: a biased network trained with the robust one"),
    "CrossFitted": (
        "cross_fitted.CrossFitted",
        "biased networks, or small heads on a view, each estimating rows it was not trained on",
    ),
    "Given": ("given.Given", "from a file or a column, row by row; rows without one are not corrected"),
    "TrueAttributes": ("given.TrueAttributes", "the attribute labels of the training rows, which are then read"),
    "Clusters": (
        "clusters.Clusters",
        "tells apart several attribute values of one label, on top of a biased network (LC+)",
    ),
    "XRM": ("xrm.XRM", "twin networks that imitate each other's held-out mistakes (Pezeshki et al. 2024)"),
    "EIIL": ("mst.EIIL", "the environments in which an early network is least invariant (Creager et al. 2021)"),
    "MST": ("mst.MST", "what a network answers that overfits a tenth of the rows (Zhao and Zhang 2026)"),
}
ESTIMATORS |= {name: (f"{__name__}.{path}", line) for name, (path, line) in ESTIMATORS.items()}
