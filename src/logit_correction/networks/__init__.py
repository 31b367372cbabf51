"""Networks. Any ``nn.Module`` that maps inputs to logits serves as well. One file each, and one line here."""

from __future__ import annotations

#: Name -> dotted path and one line. A dotted path of your own works wherever a name does.
NETWORKS: dict[str, tuple[str, str]] = {
    "MLP": (
        "logit_correction.networks.mlp.MLP",
        "fully connected layers on flattened inputs; three of 100 by default",
    ),
}
