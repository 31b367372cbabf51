"""Training methods. One file each, and one line here."""

from __future__ import annotations

_HERE = "logit_correction.methods."

#: Name -> dotted path and one line. A dotted path of your own works wherever a name does.
METHODS: dict[str, tuple[str, str]] = {
    "ERM": (_HERE + "erm.ERM", "empirical risk minimization: plain cross-entropy"),
    "LC": (_HERE + "lc.LC", "logit correction (Liu et al. 2023) for the shortcut that it finds, if any"),
    "GroupDRO": (_HERE + "group_dro.GroupDRO", "worst group's loss, with training attributes (Sagawa et al. 2020)"),
    "LfF": (_HERE + "lff.LfF", "learning from failure: relative difficulty (Nam et al. 2020)"),
    "JTT": (_HERE + "jtt.JTT", "just train twice: errors are seen more often (Liu et al. 2021)"),
    "DFA": (_HERE + "dfa.DFA", "disentangled feature augmentation (Lee et al. 2021)"),
    "Reweighting": (_HERE + "reweighting.Reweighting", "cross-entropy weighted by 1 / P(y, a), estimated or true"),
    "PostHoc": (_HERE + "post_hoc.PostHoc", "ERM or a finished run, corrected when it predicts (Menon et al. 2021)"),
    "LastLayer": (
        _HERE + "last_layer.LastLayer",
        "the last layer of ERM or of a finished run retrained: AFR and DFR (both 2023)",
    ),
    "StagedLC": (_HERE + "lc.LC", "logit correction after cross-fitted biased networks; our own, the preset staged"),
}

#: Those that only an audit writes into its ``fix.yaml``.
ADVISED_METHODS: dict[str, tuple[str, str]] = {
    "Average": (_HERE + "average.Average", "average of several trainings, weighted by labelled new rows"),
}
