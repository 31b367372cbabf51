"""Staged logit correction: LC after cross-fitted biased networks, under its own name."""

from __future__ import annotations

from logit_correction.attributes.base import AttributeEstimator
from logit_correction.methods.lc import LC
from logit_correction.methods.mixing import Mixing
from logit_correction.methods.prior import PriorRule
from logit_correction.types import DataInfo, NetworkFactory


class StagedLC(LC):
    """``LC`` with ``attributes=CrossFitted``: biased networks on the whole input estimate the attributes first.

    The same as ``--preset staged``. No shortcut is looked for: whatever the biased networks take for the attribute is
    corrected.

    >>> import torch
    >>> from logit_correction import StagedLC, DataInfo
    >>> method = StagedLC(lambda: torch.nn.Linear(3, 2), DataInfo(num_labels=2, num_rows=4, input_shape=(3,)))
    >>> type(method.attributes).__name__, method.num_stages
    ('CrossFitted', 2)
    """

    def __init__(
        self,
        network: NetworkFactory,
        info: DataInfo,
        *,
        attributes: AttributeEstimator | str = "CrossFitted",
        prior: PriorRule | str | None = None,
        mixing: Mixing | str = "IndependentMixUp",
        strength: float = 1.0,
        oversampling: float | None = None,
        biased_network: NetworkFactory | None = None,
        seed: int = 0,
    ) -> None:
        """Build all networks; the options are those of ``LC``."""
        super().__init__(
            network,
            info,
            attributes=attributes,
            prior=prior,
            mixing=mixing,
            strength=strength,
            oversampling=oversampling,
            biased_network=biased_network,
            seed=seed,
        )
