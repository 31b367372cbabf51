"""What every network of ours promises, and the small ones that need no package."""

from __future__ import annotations

import json
import os
import urllib.error
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from logit_correction.attributes.online import Online
from logit_correction.data.texts import load_tokenizer
from logit_correction.errors import InputError
from logit_correction.functional import mix_rows
from logit_correction.methods.dfa import DFA
from logit_correction.methods.lc import LC
from logit_correction.methods.parts import GroupMixUp
from logit_correction.networks import NETWORKS
from logit_correction.networks.base import DropoutLinear, skip_pretrained_weights, split_at_mixing_point
from logit_correction.networks.pretrained import STATISTICS, ResNet18, Standardize, TextClassifier, Timm
from logit_correction.networks.small import MLP
from logit_correction.registry import import_component
from logit_correction.runs.options import complete_config
from logit_correction.types import Batch, DataInfo, Inputs, TrainingRows

from ..forked_programs import ForkedProgram

SMALL = DataInfo(num_labels=4, num_rows=12, input_shape=(3, 8, 8))
GREY = DataInfo(num_labels=2, num_rows=12, input_shape=(1, 12, 10), num_attributes=5)
DEEP = DataInfo(num_labels=3, num_rows=12, input_shape=(5, 8, 8))
LARGE = DataInfo(num_labels=3, num_rows=12, input_shape=(3, 80, 80))
VECTORS = DataInfo(num_labels=3, num_rows=12, input_shape=(7,))
TOKENS = DataInfo(num_labels=3, num_rows=12, input_shape=(9,), tokens=True)

#: Name, options and the data that it is tried on.
CASES: list[tuple[str, dict[str, Any], DataInfo]] = [
    *[("MLP", {}, info) for info in (SMALL, VECTORS)],
    ("Linear", {}, VECTORS),
    *[("ConvNet", {}, info) for info in (SMALL, GREY)],
    ("ResNet18", {}, SMALL),
    ("Timm", {"model": "test_resnet"}, GREY),
    ("Timm", {"model": "test_vit"}, LARGE),
    ("TextClassifier", {}, TOKENS),
]
LARGE_CASES: list[tuple[str, dict[str, Any], DataInfo]] = [
    ("ResNet18", {}, DEEP),
    ("ResNet18", {"stem": "imagenet"}, GREY),
    ("ResNet50", {}, SMALL),
]

Make = Callable[[], nn.Module]


def draw_inputs(info: DataInfo, rows: int = 6) -> Inputs:
    generator = torch.Generator().manual_seed(0)
    if not info.tokens:
        return torch.rand((rows, *info.input_shape), generator=generator)
    length = info.input_shape[0]
    mask = (torch.arange(length) < torch.arange(rows)[:, None] + 3).long()
    return {"input_ids": torch.randint(4, 19, (rows, length), generator=generator) * mask, "attention_mask": mask}


def take_rows(inputs: Inputs, rows: slice) -> Inputs:
    return {name: part[rows] for name, part in inputs.items()} if isinstance(inputs, dict) else inputs[rows]


@pytest.fixture(
    params=[*CASES, *(pytest.param(case, marks=pytest.mark.slow) for case in LARGE_CASES)],
    ids=lambda case: f"{case[0]}-{'x'.join(map(str, case[2].input_shape))}",
)
def case(request: pytest.FixtureRequest) -> tuple[Make, DataInfo]:
    """A function that builds a network, and the data that it takes."""
    name, options, info = request.param
    if name == "Timm":
        pytest.importorskip("timm")
    if name == "TextClassifier":
        options = {**options, "model": str(request.getfixturevalue("tiny_bert"))}
    cls = import_component("network", name, NETWORKS)
    return lambda: cls(info, **options), info


def test_every_network_has_a_case() -> None:
    assert {name for name, _, _ in [*CASES, *LARGE_CASES]} == {name for name in NETWORKS if name != "FromRun"}


def test_network_equals_its_head_on_its_features_and_is_restored_from_its_state(case: Any) -> None:
    make, info = case
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = make()
        second = make()
        inputs = draw_inputs(info)
    assert all(module.training for module in network.modules())
    logits = network(inputs)
    assert logits.shape == (6, info.num_labels) and bool(torch.isfinite(logits).all())
    (logits * torch.arange(1, info.num_labels + 1)).square().sum().backward()
    assert all(p.grad is not None for p in network.parameters())
    features = network.eval().features(inputs)
    expected = network(inputs)
    assert isinstance(network.head, nn.Linear) and features.shape == (6, network.head.in_features)
    assert torch.equal(network.head(features), expected)
    one_by_one = torch.cat([network(take_rows(inputs, slice(row, row + 1))) for row in range(6)])
    torch.testing.assert_close(one_by_one, expected, rtol=1e-3, atol=1e-4)
    assert not torch.equal(expected, second.eval()(inputs))
    second.load_state_dict(network.state_dict())
    assert torch.equal(expected, second(inputs))


def test_network_trains_with_lc(case: Any) -> None:
    make, info = case
    hidden = 0.0 if info.tokens else 0.5
    mixing = GroupMixUp(place="features" if info.tokens else "inputs")
    method = LC(make, info, attributes=Online(input_dropout=hidden), mixing=mixing)
    method.setup(TrainingRows(torch.arange(info.num_rows) % info.num_labels))
    method.begin_stage(0, None)
    optimizer = torch.optim.SGD(method.parameter_groups(), lr=1e-3)
    batch = Batch(draw_inputs(info), torch.arange(6) % info.num_labels, torch.arange(6))
    before = [p.detach().clone() for p in method.network.parameters()]
    for step in range(2):
        loss = method(batch, step / 2).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        assert bool(torch.isfinite(loss))
    assert any(not torch.equal(p, old) for p, old in zip(method.network.parameters(), before, strict=True))


TOO_SMALL = DataInfo(num_labels=2, num_rows=1, input_shape=(3, 3, 8))
REFUSED: list[tuple[str, dict[str, Any], DataInfo, str]] = [
    *[(name, {}, VECTORS, "takes images") for name in ("ConvNet", "ResNet18")],
    *[(name, {}, TOKENS, "TextClassifier") for name in ("Timm", "MLP")],
    ("TextClassifier", {}, SMALL, "takes tokens"),
    ("MLP", {"hidden": []}, SMALL, "hidden widths"),
    ("ConvNet", {"channels": [8] * 5}, SMALL, "images of 8x8.*fewer channels"),
    ("ResNet18", {"weights": "imagenet"}, DEEP, "3 channels or 1, not 5"),
    ("ResNet18", {"weights": "imagenet", "normalize": "cifar"}, SMALL, "need normalize imagenet"),
    ("Timm", {"model": "resnet_18"}, SMALL, r"timm has no network 'resnet_18' \(did you mean"),
    ("Timm", {"model": "test_vit"}, TOO_SMALL, "timm's test_vit"),
    ("Timm", {"model": "test_resnet", "weights": "weights.pt"}, SMALL, "FILE.safetensors"),
    ("Timm", {"model": "test_resnet", "weights": "pretrained"}, SMALL, "weights=none"),
    ("TextClassifier", {"model": "no/such-model"}, TOKENS, r"'no/such-model' is not in .*config\.json"),
]


@pytest.mark.parametrize(("name", "options", "info", "expected"), REFUSED)
def test_unsuitable_options_and_data_are_refused(
    name: str, options: dict[str, Any], info: DataInfo, expected: str
) -> None:
    with pytest.raises(InputError, match=expected):
        import_component("network", name, NETWORKS)(info, **options)


def test_mlp_equals_its_formula_and_mixing_after_its_first_layer_equals_mixing_inputs() -> None:
    network = MLP(DataInfo(num_labels=3, num_rows=1, input_shape=(2, 3, 4)), hidden=[5, 4]).double()
    inputs = torch.randn(7, 2, 3, 4, dtype=torch.float64)
    weights = list(network.parameters())
    value = inputs.reshape(7, 24)
    for layer in range(2):
        value = (value @ weights[2 * layer].T + weights[2 * layer + 1]).clamp_min(0)
    torch.testing.assert_close(network(inputs), value @ weights[4].T + weights[5])
    values, apply_rest = split_at_mixing_point(network, inputs, "inputs")
    assert values.shape == (7, 5)
    partner = torch.arange(7).flip(0)
    weight = torch.rand(7, dtype=torch.float64)
    mixed = apply_rest(mix_rows(values, partner, weight))
    expected = network(mix_rows(inputs, partner, weight))
    torch.testing.assert_close(mixed, expected)
    gradients, expected_gradients = (
        torch.autograd.grad(outputs.square().sum(), weights) for outputs in (mixed, expected)
    )
    for gradient, expected_gradient in zip(gradients, expected_gradients, strict=True):
        torch.testing.assert_close(gradient, expected_gradient)
    wide = MLP(VECTORS, hidden=[9])
    numbers = torch.randn(3, 7)
    assert split_at_mixing_point(wide, numbers, "inputs")[0] is numbers


@pytest.fixture
def torch_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty torch cache, and no network."""

    def offline(*_: Any, **__: Any) -> None:
        raise urllib.error.URLError("no network")

    monkeypatch.setattr(torch.hub, "download_url_to_file", offline)
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path / "hub"))
    (tmp_path / "hub" / "checkpoints").mkdir(parents=True)
    return tmp_path / "hub" / "checkpoints"


def test_imagenet_weights_are_read_from_the_cache_without_pickle(torch_home: Path, monkeypatch: Any) -> None:
    from torchvision.models import resnet18

    file = torch_home / "resnet18-f37072fd.pth"
    info = DataInfo(num_labels=3, num_rows=5, input_shape=(3, 32, 32))
    with pytest.raises(InputError, match=rf"{torch_home}.*https://.*weights=none"):
        ResNet18(info, weights="imagenet")
    for content in ({"weight": torch.zeros(2)}, {"weight": Path}):  # of another network; a class
        torch.save(content, file)
        with pytest.raises(InputError, match="damaged"):
            ResNet18(info, weights="imagenet")
    trunk = resnet18().eval()
    load_options = dict[str, Any]()
    state = trunk.state_dict()
    monkeypatch.setattr(
        torch.hub, "load_state_dict_from_url", lambda url, **options: load_options.update(options) or state
    )
    network = ResNet18(info, weights="imagenet").eval()
    assert load_options["weights_only"] and load_options["check_hash"]
    trunk.fc = nn.Identity()
    images = torch.rand(2, 3, 32, 32)
    torch.testing.assert_close(network.features(images), trunk(Standardize(*STATISTICS["imagenet"])(images)))
    monkeypatch.setattr(torch.hub, "load_state_dict_from_url", None)
    with skip_pretrained_weights():
        assert ResNet18(info, weights="imagenet").metadata == {"stem": "imagenet", "weights": "imagenet"}


def test_timm_reads_a_weights_file(tmp_path: Path) -> None:
    timm = pytest.importorskip("timm")
    from safetensors.torch import save_file

    file = tmp_path / "weights.safetensors"
    trunk = timm.create_model("test_resnet", num_classes=7).eval()
    for content in (b"damaged", None):
        file.write_bytes(content) if content else save_file({"weight": torch.zeros(2)}, file)
        with pytest.raises(InputError, match=r"test_resnet"):
            Timm(SMALL, model="test_resnet", weights=str(file))
    save_file(trunk.state_dict(), file)
    network = Timm(SMALL, model="test_resnet", weights=str(file)).eval()
    images = torch.rand(2, 3, 8, 8)
    standardized = Standardize(trunk.pretrained_cfg["mean"], trunk.pretrained_cfg["std"])(images)
    expected = trunk.forward_head(trunk.forward_features(standardized), pre_logits=True)
    torch.testing.assert_close(network.features(images), expected)
    with skip_pretrained_weights():
        Timm(SMALL, model="test_resnet", weights="gone.safetensors")


def test_code_in_the_folder_of_a_text_model_never_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("transformers")
    parts = {"AutoConfig": "code.C", "AutoModel": "code.M", "AutoTokenizer": ["code.T", None]}
    for name in ("config.json", "tokenizer_config.json"):
        (tmp_path / name).write_text(json.dumps({"model_type": "strange", "auto_map": parts}))
    (tmp_path / "code.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    monkeypatch.setattr("builtins.input", lambda *_: "y")
    for load in (lambda: TextClassifier(TOKENS, model=str(tmp_path)), lambda: load_tokenizer(str(tmp_path))):
        with pytest.raises(InputError, match="contains custom code"):
            load()
    assert not (tmp_path / "ran").exists()


def test_text_encoder_is_read_from_its_folder_and_ignores_padding(tiny_bert: Path, tmp_path: Path) -> None:
    import transformers

    encoder = transformers.BertModel.from_pretrained(tiny_bert).eval()
    tokens = draw_inputs(TOKENS)
    assert isinstance(tokens, dict)
    tokens_with_other_padding = {**tokens, "input_ids": tokens["input_ids"] + (1 - tokens["attention_mask"]) * 7}
    network = TextClassifier(TOKENS, model=str(tiny_bert)).eval()
    torch.testing.assert_close(network.features(tokens), encoder(**tokens).pooler_output)
    torch.testing.assert_close(network(tokens), network(tokens_with_other_padding))
    (tmp_path / "config.json").write_text((tiny_bert / "config.json").read_text())
    torch.save(encoder.state_dict(), tmp_path / "pytorch_model.bin")
    with pytest.raises(InputError, match=r"model\.safetensors"):
        TextClassifier(TOKENS, model=str(tmp_path))
    drawn = TextClassifier(TOKENS, model=str(tmp_path), weights="none")
    name = "embeddings.word_embeddings.weight"
    assert not torch.equal(drawn.state_dict()[f"features.encoder.{name}"], encoder.state_dict()[name])
    with skip_pretrained_weights():
        TextClassifier(TOKENS, model=str(tmp_path))
    with pytest.raises(InputError, match=r"texts have 25 tokens, but .* takes 24"):
        TextClassifier(replace(TOKENS, input_shape=(25,)), model=str(tiny_bert))


def test_resnet_standardizes_by_the_requested_statistics() -> None:
    transforms = pytest.importorskip("torchvision.transforms")
    images = torch.rand(2, 3, 8, 8)
    mean = {"imagenet": (0.485, 0.456, 0.406), "cifar": (0.4914, 0.4822, 0.4465)}
    deviation = {"imagenet": (0.229, 0.224, 0.225), "cifar": (0.2023, 0.1994, 0.2010)}
    for name in ("imagenet", "cifar"):
        network = ResNet18(SMALL, normalize=name).eval()
        standardized = transforms.Normalize(mean[name], deviation[name])(images)
        torch.testing.assert_close(network.features(images), network.features[1](standardized))
    with_default = ResNet18(SMALL).features[0].mean.flatten()
    torch.testing.assert_close(with_default, torch.tensor(mean["imagenet"]))


def test_text_features_are_mixed_before_the_dropout_of_the_head(tiny_bert: Path) -> None:
    import transformers

    tokens = draw_inputs(TOKENS)
    assert isinstance(tokens, dict)
    network = TextClassifier(TOKENS, model=str(tiny_bert))
    encoder = transformers.BertModel.from_pretrained(tiny_bert).train()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        logits = network(tokens)
        torch.manual_seed(5)
        dropped = nn.functional.dropout(encoder(**tokens).pooler_output, 0.1)
        torch.testing.assert_close(logits, dropped @ network.head.weight.T + network.head.bias)  # without mixing
        network.features.eval()
        values, apply_rest = split_at_mixing_point(network, tokens, "features")
        torch.testing.assert_close(values, encoder.eval()(**tokens).pooler_output)
        partner = torch.arange(6).flip(0)
        weight = torch.rand(6)
        torch.manual_seed(6)
        mixed = apply_rest(mix_rows(values, partner, weight))
        torch.manual_seed(6)
        dropped = nn.functional.dropout(mix_rows(values, partner, weight), 0.1)
        torch.testing.assert_close(mixed, dropped @ network.head.weight.T + network.head.bias)
    dfa = DFA(lambda: TextClassifier(TOKENS, model=str(tiny_bert)), TOKENS)
    for head in (dfa.network.intrinsic_head, dfa.network.biased_head):
        assert isinstance(head, DropoutLinear) and head.in_features == 2 * network.head.in_features


@pytest.mark.parametrize("network", ["ResNet18", pytest.param("Timm", marks=pytest.mark.slow)])
def test_torchvision_that_does_not_fit_torch_gives_one_message(network: str, tmp_path: Path) -> None:
    package = tmp_path / "packages" / "torchvision"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text('raise RuntimeError("operator torchvision::nms does not exist")')
    words = ["train", "--data", "Digits", "--network", network, "--out", str(tmp_path / "run")]
    path = os.pathsep.join(filter(None, [str(package.parent), os.environ.get("PYTHONPATH")]))
    with ForkedProgram(words, environment=os.environ | {"PYTHONPATH": path}) as process:
        assert process.wait() == 2 and not (tmp_path / "run").exists()
        (message,) = process.output.splitlines()
    assert all(f"{name} {version(name)}" in message for name in ("torch", "torchvision"))
    assert "nms does not exist" in message and "pip install --upgrade torch torchvision" in message


def test_network_by_dotted_path_whose_package_does_not_import_gives_one_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_networks.py").write_text('raise RuntimeError("operator torchvision::nms does not exist")')
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(InputError, match=r"broken_networks\.Net.*nms does not exist"):
        complete_config({"data": "Digits", "network": "broken_networks.Net"})
