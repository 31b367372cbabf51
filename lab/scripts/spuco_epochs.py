"""Epochs of SpuCo's methods on a table of ours, for ``methods_speed.py``.

SpuCo starts four processes that read for each data loader; here it reads in the process itself, as ours does, which a
small network is faster with.
"""

from __future__ import annotations

from typing import Any

import torch
from step_speed import BATCH, HIDDEN, Function
from torch.utils.data import DataLoader, Dataset

from logit_correction.data.table import DataTable
from logit_correction.networks.small import MLP


class InMemory(Dataset[tuple[torch.Tensor, int]]):
    """Colored MNIST as SpuCo wants it: coloured once, and handed out row by row."""

    def __init__(self, table: DataTable) -> None:
        rows = table.split["train"]
        self.inputs = torch.cat([table.inputs.fetch(part) for part in rows.split(1000)])
        self.labels, self.num_classes = table.label[rows].tolist(), table.info.num_labels
        groups = zip(self.labels, table.attribute[rows].tolist(), strict=True)
        self.group_partition: dict[tuple[int, int], list[int]] = {}
        for row, group in enumerate(groups):
            self.group_partition.setdefault(group, []).append(row)

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, row: int) -> tuple[torch.Tensor, int]:
        return self.inputs[row], self.labels[row]


def spuco_epochs(table: DataTable) -> dict[str, list[Function]]:
    """An epoch of SpuCo's ERM, LfF, Group DRO and JTT (two epochs, and the errors between)."""
    from spuco.datasets import GroupLabeledDatasetWrapper
    from spuco.end2end import LFF
    from spuco.group_inference import JTTInference
    from spuco.robust_train import ERM, CustomSampleERM, GroupDRO

    data = InMemory(table)

    def network() -> dict[str, Any]:
        model = MLP(table.info, HIDDEN)
        return {"model": model, "optimizer": torch.optim.Adam(model.parameters(), lr=2e-3)}

    common: dict[str, Any] = {"batch_size": BATCH, "num_epochs": 1}

    def alone(trainer: Any) -> Any:
        """Read in the process itself."""
        old = trainer.trainloader
        trainer.trainloader = DataLoader(old.dataset, batch_size=BATCH, sampler=old.sampler)
        return trainer

    def erm() -> Any:
        trained = ERM(trainset=data, **network(), **common)
        alone(trained.trainer)
        trained.train_epoch(0)
        return trained

    def lff() -> None:
        bias, debias = network(), network()
        models = {"bias_model": bias["model"], "debias_model": debias["model"]}
        optimizers = {"bias_optimizer": bias["optimizer"], "debias_optimizer": debias["optimizer"]}
        alone(LFF(trainset=data, **models, **optimizers, **common)).train()

    def dro() -> None:
        labelled = GroupLabeledDatasetWrapper(data, data.group_partition)
        trained = GroupDRO(trainset=labelled, **network(), **common)
        alone(trained.trainer)
        trained.train_epoch(0)

    def jtt() -> None:
        model = erm().trainer.model
        with torch.no_grad():
            predicted = torch.cat([model(part).argmax(1) for part in data.inputs.split(1000)])
        wrong = JTTInference(predicted.tolist(), data.labels).infer_groups()[(0, 1)]
        trained = CustomSampleERM(trainset=data, indices=[*range(len(data)), *wrong], **network(), **common)
        alone(trained.trainer)
        trained.train_epoch(0)

    return {"SpuCo LfF": [lff], "SpuCo ERM": [erm], "SpuCo Group DRO": [dro], "SpuCo JTT": [jtt]}
