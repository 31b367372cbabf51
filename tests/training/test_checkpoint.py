"""Checkpoints: what goes in comes out, and nothing else is read."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
import torch

from logit_correction.errors import InputError
from logit_correction.training import checkpoint
from logit_correction.training.checkpoint import FORMAT, Progress
from logit_correction.training.rules import Selected
from logit_correction.types import Stage


def progress() -> Progress:
    plan = Stage(epochs=3, sample_weight=torch.tensor([1, 0, 2]), learning_rate=0.1)
    best = {"valid_average": Selected(0.5, 2, {"weight": torch.ones(2), "extra": {"count": 4}}, torch.tensor([0, 1]))}
    return Progress(1, 2, 3, 40, plan, best, 1.5, ["be careful"])


def save(path: Path, saved: Progress, **parts: Any) -> None:
    checkpoint.write(path, checkpoint.content(saved, **parts))


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    path, saved = tmp_path / "resume.pt", progress()
    save(path, saved, algorithm={"weight": torch.eye(2)}, record={"rows": [{"step": 1, "loss": 0.5}]})
    loaded, parts = checkpoint.load(path)
    assert (loaded.stage, loaded.epoch, loaded.step, loaded.total_steps) == (1, 2, 3, 40)
    assert loaded.seconds == 1.5 and loaded.warnings == ["be careful"]
    assert isinstance(loaded.plan, Stage) and loaded.plan.epochs == 3 and loaded.plan.learning_rate == 0.1
    assert torch.equal(loaded.plan.sample_weight, saved.plan.sample_weight)
    best = loaded.best["valid_average"]
    assert isinstance(best, Selected) and (best.score, best.epoch) == (0.5, 2)
    assert torch.equal(best.state["weight"], torch.ones(2)) and best.state["extra"] == {"count": 4}
    assert best.prediction.tolist() == [0, 1]
    assert torch.equal(parts["algorithm"]["weight"], torch.eye(2))
    assert parts["record"] == {"rows": [{"step": 1, "loss": 0.5}]}


def test_a_run_that_has_not_begun_has_no_plan(tmp_path: Path) -> None:
    save(tmp_path / "resume.pt", Progress())
    assert checkpoint.load(tmp_path / "resume.pt")[0] == Progress()


def test_saving_changes_nothing_and_leaves_one_file(tmp_path: Path) -> None:
    saved = progress()
    for _ in range(2):
        save(tmp_path / "resume.pt", saved)
    assert isinstance(saved.plan, Stage) and isinstance(saved.best["valid_average"], Selected)
    assert [path.name for path in tmp_path.iterdir()] == ["resume.pt"]


def test_the_old_checkpoint_stays_if_writing_fails(tmp_path: Path) -> None:
    path = tmp_path / "resume.pt"
    save(path, progress())
    before = path.read_bytes()

    class Unwritable:
        def __reduce__(self) -> tuple[object, ...]:
            raise OSError("No space left on device")

    with pytest.raises(OSError, match="No space"):
        save(path, progress(), algorithm={"weight": torch.ones(1000), "bad": Unwritable()})
    assert path.read_bytes() == before and [entry.name for entry in tmp_path.iterdir()] == ["resume.pt"]


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"resume\.pt is missing"):
        checkpoint.load(tmp_path / "resume.pt")


@pytest.mark.parametrize("size", [0, 10, -100])
def test_a_damaged_file_is_named(tmp_path: Path, size: int) -> None:
    path = tmp_path / "resume.pt"
    save(path, progress())
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(InputError, match=r"resume\.pt is damaged"):
        checkpoint.load(path)


@pytest.mark.parametrize("offset", range(0, 4096, 509))
def test_one_flipped_bit_of_a_weight_is_seen(tmp_path: Path, offset: int) -> None:
    path = tmp_path / "resume.pt"
    save(path, Progress(), algorithm={"weight": torch.full((32, 32), 0.1)})
    content = bytearray(path.read_bytes())
    content[content.index(torch.full((32,), 0.1).numpy().tobytes()) + offset] ^= 0x40
    path.write_bytes(content)
    torch.load(path, weights_only=True)  # which sees nothing
    with pytest.raises(InputError, match=r"resume\.pt is damaged \(the checksum of .*data/.* is wrong\)"):
        checkpoint.load(path)


@pytest.mark.parametrize("content", [{"format": FORMAT + 1}, {}, [1, 2], torch.ones(2)])
def test_a_file_of_another_version_is_refused(tmp_path: Path, content: object) -> None:
    path = tmp_path / "resume.pt"
    torch.save(content, path)
    with pytest.raises(InputError, match="another version"):
        checkpoint.read(path)


class Mischief:
    """Would write a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.path,)


def test_code_in_a_file_is_not_run(tmp_path: Path) -> None:
    path, target = tmp_path / "resume.pt", tmp_path / "target"
    torch.save({"format": FORMAT, "algorithm": Mischief(target)}, path)
    with pytest.raises(InputError, match="damaged"):
        checkpoint.read(path)
    assert not target.exists()
    pickle.loads(pickle.dumps(Mischief(target)))
    assert target.exists()  # it would have worked


@pytest.mark.parametrize("change", [{"plan": {"length": 3}}, {"best": {"last": {"score": 1.0}}}, {"unheard": 1}])
def test_progress_of_another_version_is_refused(change: dict[str, object], tmp_path: Path) -> None:
    path = tmp_path / "resume.pt"
    save(path, Progress())
    content = checkpoint.read(path)
    content["progress"] |= change
    checkpoint.write(path, content)
    with pytest.raises(InputError, match=r"resume\.pt was written by another version"):
        checkpoint.load(path)


@pytest.mark.parametrize("state", [{}, {"weight": torch.zeros(3, 2)}, {"weight": torch.zeros(1), "bias": None}])
def test_a_state_that_does_not_fit_is_refused(state: dict[str, object], tmp_path: Path) -> None:
    layer = torch.nn.Linear(2, 3)
    whole = {"weight": torch.ones(3, 2), "bias": torch.ones(3)}
    checkpoint.load_state(tmp_path / "resume.pt", layer, whole)
    assert bool((layer.weight == 1).all())
    with pytest.raises(InputError, match=r"resume\.pt was written by another version"):
        checkpoint.load_state(tmp_path / "resume.pt", layer, state)
