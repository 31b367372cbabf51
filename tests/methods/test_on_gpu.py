"""Every method comes to the same weights on a GPU as on the CPU, within rounding."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from logit_correction.data.loading import BatchLoader
from logit_correction.data.table import DataTable
from logit_correction.methods import METHODS
from logit_correction.methods.base import Algorithm
from logit_correction.seeds import StepRandomness
from logit_correction.types import Correlation

#: Options without hidden inputs: what is hidden is drawn on the device, whose generator is another one. Heads on views
#: are trained on the CPU wherever the networks are.
HEAD_START = {"name": "Online", "head_start_epochs": 1}
HALVES = {"name": "CrossFitted", "splits": 1}
CASES: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in METHODS if name not in ("LC", "Reweighting")),
    ("LC", {"attributes": "Online", "prior": {"name": "Moving", "estimator": "cell"}, "mixing": "GroupMixUp"}),
    ("LC", {"attributes": {**HEAD_START, "epochs": 1}, "mixing": {"name": "GroupMixUp", "place": "features"}}),
    ("LC", {"attributes": {"name": "Auto"}}),
    ("LC", {"attributes": {"name": "Clusters", "attributes": HEAD_START}}),
    ("Reweighting", {"attributes": "TrueAttributes"}),
    ("GroupDRO", {"attributes": HALVES}),
]

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device"),
]


def train_on_device(
    build: Any, name: str, options: dict[str, Any], table: DataTable, device: str
) -> tuple[Algorithm, Tensor]:
    """Two epochs in every stage, with plain gradient descent, which keeps small differences small."""
    algorithm: Algorithm = build(name, table, seed=1, **options).to(device)

    def loader(**others: Any) -> BatchLoader:
        return BatchLoader(table, "train", batch_size=16, device=torch.device(device), **others)

    for stage in range(algorithm.num_stages):
        if stage:
            with torch.no_grad():
                rows = torch.cat([algorithm.eval().collect_outputs(batch) for batch in loader().epoch()])
            algorithm.train().begin_stage(stage, rows)
        optimizer = torch.optim.SGD(algorithm.parameter_groups(), lr=0.05)
        batches = loader(shuffle=True)
        for epoch in range(2):
            for number, batch in enumerate(batches.epoch(epoch)):
                optimizer.zero_grad()
                algorithm(batch, epoch + number / 3).loss.backward()
                optimizer.step()
            algorithm.end_epoch()
    with torch.no_grad():
        logits = algorithm.eval().predict(table.inputs.fetch(table.split["test"]).to(device))
    return algorithm, logits.cpu()


@pytest.mark.parametrize(("name", "options"), CASES, ids=[f"{name} {options}" for name, options in CASES])
def test_training_on_gpu_and_cpu_gives_the_same_weights(
    name: str, options: dict[str, Any], make_table, build, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw_next = StepRandomness.next
    monkeypatch.setattr(StepRandomness, "next", lambda self, device: draw_next(self, torch.device("cpu")))
    correlation = Correlation.from_table([[0, 1], [2], [3, 4]])
    table = make_table(correlation if "Clusters" in str(options) else None)
    (on_cpu, expected), (on_gpu, actual) = (
        train_on_device(build, name, options, table, device) for device in ("cpu", "cuda")
    )
    torch.testing.assert_close(actual, expected, rtol=1e-3, atol=1e-4)
    state = on_gpu.state_dict()
    for key, value in on_cpu.state_dict().items():
        if isinstance(value, Tensor) and value.is_floating_point():
            torch.testing.assert_close(
                state[key].cpu(), value, rtol=1e-3, atol=1e-4, msg=lambda text, key=key: f"{key}: {text}"
            )
