"""Training methods. One file each, and one line here."""

from __future__ import annotations

#: Name -> dotted path and one line. A dotted path of your own works wherever a name does.
METHODS: dict[str, tuple[str, str]] = {
    "ERM": ("logit_correction.methods.erm.ERM", "empirical risk minimization: plain cross-entropy"),
    "LC": ("logit_correction.methods.lc.LC", "logit correction with Group MixUp (Liu et al. 2023)"),
}
