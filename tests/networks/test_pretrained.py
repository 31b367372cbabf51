"""Where pretrained weights come from, and what is said where they cannot be had. Nothing here asks the network."""

from __future__ import annotations

import sys
import urllib.error
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from logit_correction.errors import InputError
from logit_correction.networks.base import frozen_statistics, without_pretrained_weights
from logit_correction.networks.pretrained import ResNet18, Standardize, TextClassifier, Timm
from logit_correction.types import DataInfo

INFO = DataInfo(num_labels=3, num_rows=5, input_shape=(3, 32, 32))
TEXTS = DataInfo(num_labels=3, num_rows=5, input_shape=(6,), tokens=True)
RESNET18_FILE = "resnet18-f37072fd.pth"


@pytest.fixture
def torch_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty torch cache, and no network."""

    def offline(*_: Any, **__: Any) -> None:
        raise urllib.error.URLError("no network")

    monkeypatch.setattr(torch.hub, "download_url_to_file", offline)
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path / "hub"))
    return tmp_path / "hub" / "checkpoints"


def test_standardize_takes_the_statistics_of_imagenet_by_default() -> None:
    layer = Standardize()
    images = torch.rand(2, 3, 4, 4, dtype=torch.float64)
    from torchvision.transforms.functional import normalize

    expected = normalize(images, [0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
    torch.testing.assert_close(layer.double()(images), expected)
    grey = images[:, :1]
    torch.testing.assert_close(layer(grey), layer(grey.expand(-1, 3, -1, -1)))


class TestResNetWeights:
    def test_are_read_from_the_cache(self, torch_home: Path) -> None:
        from torchvision.models import resnet18

        trunk = resnet18().eval()
        torch_home.mkdir(parents=True)
        torch.save(trunk.state_dict(), torch_home / RESNET18_FILE)
        network = ResNet18(INFO, weights="imagenet").eval()
        assert network.metadata == {"stem": "imagenet", "weights": "imagenet"}
        trunk.fc = nn.Identity()
        images = torch.rand(2, 3, 32, 32)
        torch.testing.assert_close(network.features(images), trunk(Standardize()(images)))

    def test_are_asked_for_by_file_and_place_when_offline(self, torch_home: Path) -> None:
        with pytest.raises(InputError) as caught:
            ResNet18(INFO, weights="imagenet")
        message = str(caught.value)
        assert str(torch_home / RESNET18_FILE) in message and "https://" in message and "weights=none" in message
        assert not (torch_home / RESNET18_FILE).exists()

    def test_are_not_needed_where_a_checkpoint_follows(self, torch_home: Path) -> None:
        with without_pretrained_weights():
            network = ResNet18(INFO, weights="imagenet")
        assert network.metadata["stem"] == "imagenet" and not torch_home.exists()

    @pytest.mark.parametrize("content", [b"not weights", b"", b"of another network"])
    def test_that_are_damaged_are_refused(self, torch_home: Path, content: bytes) -> None:
        torch_home.mkdir(parents=True)
        (torch_home / RESNET18_FILE).write_bytes(content)
        if content == b"of another network":
            torch.save(nn.Linear(2, 2).state_dict(), torch_home / RESNET18_FILE)
        with pytest.raises(InputError, match=r"resnet18-f37072fd\.pth"):
            ResNet18(INFO, weights="imagenet")

    def test_take_images_of_three_channels_or_one(self) -> None:
        with pytest.raises(InputError, match="3 channels or 1, not 4"):
            ResNet18(DataInfo(num_labels=2, num_rows=1, input_shape=(4, 32, 32)), weights="imagenet")


@pytest.mark.parametrize(("size", "stem", "chosen"), [(64, "auto", "cifar"), (65, "auto", "imagenet")])
def test_the_stem_goes_by_the_size(size: int, stem: Any, chosen: str) -> None:
    network = ResNet18(DataInfo(num_labels=2, num_rows=1, input_shape=(3, 32, size)), stem=stem)
    assert network.metadata["stem"] == chosen


def test_the_stem_for_small_images_keeps_their_size() -> None:
    places = {}
    for stem in ("cifar", "imagenet"):
        trunk: Any = ResNet18(INFO, stem=stem).features[-1]  # type: ignore[arg-type]
        shapes: list[int] = []
        trunk.layer1.register_forward_hook(lambda _, __, output, shapes=shapes: shapes.append(output.shape[-1]))
        trunk(torch.zeros(2, 3, 32, 32))
        places[stem] = shapes[0]
    assert places == {"cifar": 32, "imagenet": 8}


class TestTimm:
    @pytest.fixture(autouse=True)
    def timm(self) -> Any:
        return pytest.importorskip("timm")

    def test_says_what_was_probably_meant(self) -> None:
        with pytest.raises(InputError, match=r"timm has no network 'resnet_18' \(did you mean"):
            Timm(INFO, model="resnet_18")

    def test_reads_a_file_of_weights(self, timm: Any, tmp_path: Path) -> None:
        from safetensors.torch import save_file

        trunk = timm.create_model("test_resnet", num_classes=7).eval()
        save_file(trunk.state_dict(), tmp_path / "weights.safetensors")
        network = Timm(INFO, model="test_resnet", weights=str(tmp_path / "weights.safetensors")).eval()
        images = torch.rand(2, 3, 32, 32)
        mean, std = trunk.pretrained_cfg["mean"], trunk.pretrained_cfg["std"]
        expected = trunk.forward_head(trunk.forward_features(Standardize(mean, std)(images)), pre_logits=True)
        torch.testing.assert_close(network.features(images), expected)
        with without_pretrained_weights():
            Timm(INFO, model="test_resnet", weights="gone.safetensors")

    @pytest.mark.parametrize(
        ("name", "content", "expected"),
        [
            ("missing.safetensors", None, "must be none, pretrained or a .safetensors file"),
            ("weights.pt", b"pickle", "must be none, pretrained or a .safetensors file"),
            ("weights.safetensors", b"damaged", "does not hold weights of timm's test_resnet"),
        ],
    )
    def test_refuses_other_files(self, name: str, content: bytes | None, expected: str, tmp_path: Path) -> None:
        if content is not None:
            (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError, match=expected):
            Timm(INFO, model="test_resnet", weights=str(tmp_path / name))

    def test_refuses_a_file_of_another_network(self, tmp_path: Path) -> None:
        from safetensors.torch import save_file

        save_file({"weight": torch.zeros(2)}, tmp_path / "other.safetensors")
        with pytest.raises(InputError, match="does not hold the weight"):
            Timm(INFO, model="test_resnet", weights=str(tmp_path / "other.safetensors"))

    def test_says_what_to_do_when_offline(self) -> None:
        with pytest.raises(
            InputError, match=r"cannot be downloaded .* give weights=FILE\.safetensors, or weights=none"
        ):
            Timm(INFO, model="test_resnet", weights="pretrained")

    def test_refuses_images_that_the_network_does_not_take(self) -> None:
        with pytest.raises(InputError, match="timm's test_vit"):
            Timm(DataInfo(num_labels=2, num_rows=1, input_shape=(3, 20, 20)), model="test_vit")


def tokens(length: int = 6) -> dict[str, torch.Tensor]:
    mask = torch.tensor([[1] * length, [1, 1, 1, *[0] * (length - 3)]])
    return {"input_ids": torch.randint(4, 19, (2, length)) * mask, "attention_mask": mask}


class TestTextClassifier:
    def test_reads_the_folder(self, tiny_bert: Path) -> None:
        import transformers

        network = TextClassifier(TEXTS, model=str(tiny_bert)).eval()
        encoder = transformers.BertModel.from_pretrained(tiny_bert).eval()
        given = tokens()
        torch.testing.assert_close(network.features(given), encoder(**given).pooler_output)
        mean = TextClassifier(TEXTS, model=str(tiny_bert), pooling="mean").eval()
        hidden = encoder(**given).last_hidden_state
        torch.testing.assert_close(mean.features(given)[1], hidden[1, :3].mean(0))
        assert not any("pooler" in name for name in mean.state_dict())

    def test_padding_does_not_count(self, tiny_bert: Path) -> None:
        for pooling in ("cls", "mean"):
            network = TextClassifier(TEXTS, model=str(tiny_bert), pooling=pooling).eval()  # type: ignore[arg-type]
            given = tokens()
            other = {**given, "input_ids": given["input_ids"] + (1 - given["attention_mask"]) * 7}
            torch.testing.assert_close(network(given), network(other))

    def test_draws_weights_anew_where_asked(self, tiny_bert: Path, tmp_path: Path) -> None:
        (tmp_path / "config.json").write_text((tiny_bert / "config.json").read_text())
        drawn = TextClassifier(TEXTS, model=str(tmp_path), weights="none")
        pretrained = TextClassifier(TEXTS, model=str(tiny_bert))
        name = "features.encoder.embeddings.word_embeddings.weight"
        assert not torch.equal(drawn.state_dict()[name], pretrained.state_dict()[name])
        with without_pretrained_weights():
            TextClassifier(TEXTS, model=str(tmp_path))

    def test_takes_safetensors_alone(self, tiny_bert: Path, tmp_path: Path) -> None:
        import transformers

        (tmp_path / "config.json").write_text((tiny_bert / "config.json").read_text())
        torch.save(transformers.BertModel.from_pretrained(tiny_bert).state_dict(), tmp_path / "pytorch_model.bin")
        with pytest.raises(InputError, match=r"model\.safetensors"):
            TextClassifier(TEXTS, model=str(tmp_path))

    def test_says_which_folder_to_give_when_offline(self, tiny_bert: Path) -> None:
        with pytest.raises(InputError, match=r"'no/such-model' is not in .*give a folder that holds config\.json"):
            TextClassifier(TEXTS, model="no/such-model")

    def test_refuses_what_is_no_text(self, tiny_bert: Path) -> None:
        for info in (INFO, DataInfo(num_labels=2, num_rows=1, input_shape=(5,))):
            with pytest.raises(InputError, match="takes tokens of texts, but the inputs are numbers of shape"):
                TextClassifier(info, model=str(tiny_bert))
        with pytest.raises(InputError, match="takes tokens"):
            TextClassifier(TEXTS, model=str(tiny_bert))(torch.zeros(2, 6))

    def test_refuses_longer_texts_than_the_model_takes(self, tiny_bert: Path) -> None:
        info = DataInfo(num_labels=2, num_rows=1, input_shape=(25,), tokens=True)
        with pytest.raises(InputError, match=r"texts have 25 tokens, but .* takes 24"):
            TextClassifier(info, model=str(tiny_bert))


def test_frozen_statistics_stay() -> None:
    network = nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 2))
    inputs = 5 + torch.randn(16, 3)
    layer: Any = network[0]
    before = layer.running_mean.clone()
    expected = network(inputs)
    moved = layer.running_mean.clone()
    assert not torch.equal(before, moved)
    with frozen_statistics(network):
        torch.testing.assert_close(network(inputs), expected)
    assert torch.equal(layer.running_mean, moved) and layer.momentum == 0.1


@pytest.mark.parametrize(
    ("package", "network", "extra"), [("timm", Timm, "timm"), ("transformers", TextClassifier, "text")]
)
def test_a_missing_package_is_named_with_its_extra(
    package: str, network: Any, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(InputError, match=rf"needs {package}: `pip install 'logit-correction\[{extra}\]'`"):
        network(TEXTS if extra == "text" else INFO)
