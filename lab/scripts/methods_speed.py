"""The step of every method over ERM's on three networks, peak memory, and an epoch beside SpuCo's in the same run.

    python lab/scripts/methods_speed.py --history history.jsonl

Steps are those of a method's own last stage, settled estimates from given attributes, on random inputs; the
competitors take turns as in ``step_speed.py``. Peak memory is what a forked process takes beyond what it began with,
over three steps. The epochs are of Colored MNIST with the MLP. SpuCo 2.0.3 is left out where it cannot be imported.
Each run appends one line of JSON to the history.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from spuco_epochs import spuco_epochs
from step_speed import BATCH, HIDDEN, SETTLED, STEPS, Found, Function, compare, fit, load_table, plain_step
from torch import nn

from logit_correction.attributes.given import TrueAttributes
from logit_correction.attributes.online import Online
from logit_correction.data.loading import BatchLoader
from logit_correction.data.stores import ArrayStore, InputStore
from logit_correction.data.table import DataTable
from logit_correction.data.texts import TokenStore
from logit_correction.methods import METHODS
from logit_correction.methods.erm import ERM
from logit_correction.methods.lc import LC
from logit_correction.methods.parts import GroupMixUp, IndependentMixUp, Moving
from logit_correction.networks.pretrained import ResNet18
from logit_correction.networks.small import MLP
from logit_correction.registry import resolve
from logit_correction.runs.train import training_rows

LABELS, TEXT = 10, 32
NETWORKS = ("MLP", "ResNet18", "transformer")


def make_table(store: InputStore, rows: int) -> DataTable:
    """Rows of random labels, of which one in ten has another attribute."""
    generator = torch.Generator().manual_seed(0)
    label = torch.randint(0, LABELS, (rows,), generator=generator)
    other = torch.rand(rows, generator=generator) < 0.1
    attribute = torch.where(other, torch.randint(0, LABELS, (rows,), generator=generator), label)
    names = [str(i) for i in range(LABELS)]
    split = {"train": torch.arange(rows), "valid": torch.arange(0), "test": torch.arange(0)}
    return DataTable(store, label, attribute, split, names, names)


def images(side: int, batch: int) -> DataTable:
    pixels = torch.randint(0, 256, (8 * batch, 3, side, side), dtype=torch.uint8)
    return make_table(ArrayStore(pixels), 8 * batch)


def texts(batch: int) -> DataTable:
    words = torch.randint(5, 1000, (8 * batch, TEXT))
    return make_table(TokenStore({"input_ids": words, "attention_mask": torch.ones_like(words)}), 8 * batch)


def small_transformer(folder: str) -> Callable[[Any], nn.Module]:
    """Two layers of width 128, drawn anew."""
    from transformers import BertConfig

    from logit_correction.networks.pretrained import TextClassifier

    sizes = {"hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 512}
    BertConfig(vocab_size=1000, max_position_embeddings=TEXT, **sizes).save_pretrained(folder)
    return lambda info: TextClassifier(info, model=folder, weights="none")


def choices(name: str, tokens: bool) -> dict[str, dict[str, Any]]:
    """A method's options by the name of a row; what comes before a method's own stage is not timed."""
    place: dict[str, Any] = {"place": "features"} if tokens else {}
    settled: dict[str, Any] = {"attributes": TrueAttributes()}
    if name == "LC":
        paper = {"attributes": Online(), "prior": Moving(), "mixing": GroupMixUp(**place)}
        return {"LC": {**settled, "mixing": IndependentMixUp(**place)}, "LC, preset paper": paper}
    if name == "StagedLC":
        return {name: {**settled, "mixing": IndependentMixUp(**place)}}
    return {name: settled if name == "Reweighting" else {}}


def method_step(name: str, options: dict[str, Any], build: Callable[[Any], nn.Module], table: DataTable) -> Function:
    """One step of a method's last stage."""
    kind = resolve("method", name, METHODS)
    info = table.info
    algorithm = kind(lambda: build(info), info, **options)
    algorithm.setup(training_rows(table, algorithm, 1, None))
    outputs = (
        torch.eye(LABELS)[table.attribute] if algorithm.num_stages > 1 else None
    )  # JTT: what its first network says
    for stage in range(algorithm.num_stages):
        algorithm.begin_stage(stage, outputs if stage else None)
    loader = BatchLoader(table, "train", batch_size=len(table.label) // 8, with_attributes=algorithm.needs_attributes)
    return plain_step(algorithm.parameter_groups(), lambda b: algorithm(b, 100.0).loss, list(loader.epoch()))


def peak_memory(make: Callable[[], Function], steps: int = 3) -> float | None:
    """Return how many MiB a process takes beyond its start, building included; None without fork and /proc."""
    if not Path("/proc/self/clear_refs").exists():
        return None
    receive, send = os.pipe()
    child = os.fork()
    if child == 0:
        Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
        before = _status("VmRSS")
        step = make()
        for _ in range(steps):
            step()
        os.write(send, str((_status("VmHWM") - before) / 1024).encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(send)
    found = os.read(receive, 64)
    os.close(receive)
    return float(found) if found else None


def _status(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith(name)))


def compare_methods(title: str, build: Callable[[Any], nn.Module], table: DataTable, rounds: int) -> dict[str, Any]:
    """Print and return the step of every method over ERM's, its milliseconds, and its peak memory."""
    makers: dict[str, Callable[[], Function]] = {}
    for name in METHODS:  # ERM is the first
        for row, options in choices(name, table.info.tokens).items():
            makers[row] = lambda name=name, options=options: method_step(name, options, build, table)
    makers["ERM"]()()  # what a first step imports is nobody's memory
    memory = {row: peak_memory(make) for row, make in makers.items()}
    found = compare(title, {row: [make()] for row, make in makers.items()}, rounds, "ms", 1)
    print("peak memory, MiB: " + ", ".join(f"{row} {value:.0f}" for row, value in memory.items() if value is not None))
    return {row: {"ratio": found[row][0], "ms": found[row][1], "peak_mib": memory[row]} for row in makers}


def compare_epochs(table: DataTable, rounds: int) -> Found | str:
    """An epoch of ours by ``Fit``, validation and checkpoint included, over SpuCo's LfF; or why there is none."""
    try:
        epochs = spuco_epochs(table)
        found = version("spuco")
    except ImportError as error:
        return f"SpuCo cannot be imported ({error}): pip install spuco==2.0.3"
    print(f"SpuCo {found}")
    epochs |= {
        "LC by Fit, settled estimates": [fit(LC, table, STEPS[SETTLED])],
        "LC by Fit, preset paper": [fit(LC, table, lambda: choices("LC", False)["LC, preset paper"])],
        "ERM by Fit": [fit(ERM, table)],
    }
    return compare("An epoch of 55,000 rows over SpuCo's LfF", epochs, rounds, "s", 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--rounds", type=int, default=40, help="rounds of the steps of the MLP; a quarter of the others"
    )
    parser.add_argument("--networks", nargs="*", choices=NETWORKS, default=NETWORKS, help="those whose steps are timed")
    parser.add_argument("--epochs", type=int, default=3, help="rounds of epochs beside SpuCo; 0 leaves them out")
    parser.add_argument("--resnet_batch", type=int, default=64, help="rows of a step of ResNet-18")
    parser.add_argument("--data_root", help="folder that holds MNIST/raw; by default LOGIT_CORRECTION_DATA")
    parser.add_argument("--history", type=Path, help="file to append one line of JSON to")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    run: dict[str, Any] = {
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "commit": commit.stdout.strip(),
        "machine": platform.machine(),
        "torch": torch.__version__,
        "load": os.getloadavg()[0],
    }
    if "MLP" in options.networks:
        title, table = f"A step: MLP, batch {BATCH}", images(28, BATCH)
        run["MLP"] = compare_methods(title, lambda info: MLP(info, HIDDEN), table, options.rounds)
    if "ResNet18" in options.networks:
        title, table = f"A step: ResNet-18, 32 pixels, batch {options.resnet_batch}", images(32, options.resnet_batch)
        run["ResNet18"] = compare_methods(title, ResNet18, table, max(options.rounds // 4, 1))
    if "transformer" in options.networks:
        with tempfile.TemporaryDirectory() as folder:
            title, table = f"A step: transformer, 2 layers of 128, {TEXT} tokens, batch 32", texts(32)
            run["transformer"] = compare_methods(title, small_transformer(folder), table, options.rounds)
    if options.epochs:
        table, run["data"] = load_table(options.data_root)
        run["epochs"] = compare_epochs(table, options.epochs)
        if isinstance(run["epochs"], str):
            print(run["epochs"], file=sys.stderr)
    if options.history:
        with options.history.open("a", encoding="utf-8") as file:
            file.write(json.dumps(run) + "\n")


if __name__ == "__main__":
    main()
