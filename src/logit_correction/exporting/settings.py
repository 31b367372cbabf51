"""``config.json`` of an exported folder: what goes in and comes out, and what it takes to build the network again."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import Any

from logit_correction import __version__
from logit_correction.config import ComponentConfig, RunConfig
from logit_correction.exporting.forms import InputForm
from logit_correction.exporting.network import predicts_by_network
from logit_correction.networks.base import without_pretrained_weights
from logit_correction.runs.assemble import network_factory
from logit_correction.runs.run import FORMAT, HERE, LIBRARY, Run

#: Folders beside ``config.json`` that hold what texts are read by, and the sizes of text encoders.
TOKENIZER, TEXT_MODEL, TEXT_ENCODER = "tokenizer", "text_model", "text_encoder"

#: Entries of a test block and of the evidence that are handed out: figures and sentences, no examples of rows.
_ACCURACIES = ("average", "group_balanced", "worst_group", "worst_class", "minority", "majority")
_TEST = ("count", "groups", "by_attribute", *_ACCURACIES, "estimated")
_EVIDENCE = ("verdict", "views")


def settings_of(run: Run, form: InputForm, format_name: str) -> dict[str, Any]:
    """Return the content of ``config.json``; names of folders on this machine are left out of it."""
    labels = [str(name) for name in run.label_names]
    return {
        "library_name": LIBRARY,
        "library_version": __version__,
        "export_format": FORMAT,
        "format_name": format_name,
        "label_names": labels,
        "input": form.describe(),
        "outputs": [{"name": "logits", "dtype": "float32", "shape": [None, len(labels)]}],
        "run": portable_config(run),
        "report": portable_report(run.report),
    }


def portable_config(run: Run) -> dict[str, Any]:
    """Return the parts of a run's config that predicting takes, without places on this machine.

    A network that is its method's whole answer is named as that of ``ERM``, so that nothing else has to be built.
    """
    with run.names():
        alone = predicts_by_network(run) and _is_plain(run)
        method = ComponentConfig("ERM") if alone else run.config.method
        flat = RunConfig(run.config.data, method).to_dict()
        parts = {"data": flat["data"], "method": flat["method"]}
        parts["network"] = _network(run.config.network, TEXT_MODEL)
        if run.config.encoder is not None:
            parts["encoder"] = _network(run.config.encoder, TEXT_ENCODER)
    if parts["data"].get("tokenizer"):
        parts["data"]["tokenizer"] = HERE + TOKENIZER
    found: dict[str, Any] = _without_places(parts)
    return found | {"precision": run.config.training.precision}


def portable_report(report: Mapping[str, Any]) -> dict[str, Any]:
    """Return of a ``report.json`` what predicting takes and a model card says."""
    data, encoder, evidence = report["data"], report.get("encoder"), report.get("evidence")
    kept = ("label_names", "attribute_names", "correlation", "input_shape", "preparation", "tokens", "rows")
    described = {name: encoder[name] for name in ("name", "weights", "input_shape", "tokens")} if encoder else None
    return {
        "method": report["method"],
        "data": {"name": data["name"], **{name: data.get(name) for name in kept}},
        "encoder": None if described is None else described | {"options": {}},
        "epochs": report.get("epochs"),
        "selection": report.get("selection"),
        "labels_read": report.get("labels_read"),
        "evidence": {name: evidence.get(name) for name in _EVIDENCE} if evidence else None,
        "test": {name: report["test"].get(name) for name in _TEST},
    }


def _is_plain(run: Run) -> bool:
    """Return whether the run's network, built by itself, has the weights that were trained."""
    with without_pretrained_weights():
        built = network_factory(_origin(run.config.network), run.info)()
    return {name: value.shape for name, value in built.state_dict().items()} == {
        name: value.shape for name, value in run.algorithm.network.state_dict().items()
    }


def _network(choice: ComponentConfig, text_model: str) -> dict[str, Any]:
    """Return a network as a config has it, one of another run as what it is there."""
    origin = _origin(choice)
    options = dict(origin.options)
    if origin.name == "TextClassifier":
        options["model"] = HERE + text_model
    return {"name": origin.name, **options}


def _origin(choice: ComponentConfig) -> ComponentConfig:
    """Return the network that a network of a run is, wherever that run took it from."""
    while choice.name == "FromRun":
        choice = Run(Path(choice.options["run"]), trust_code=bool(choice.options.get("trust_code"))).config.network
    return choice


def _without_places(value: Any) -> Any:
    """Return options with paths on this machine cut to the last name.

    >>> _without_places({"file": "/home/ann/reviews.csv", "model": "prajjwal1/bert-tiny", "root": "./tokenizer"})
    {'file': 'reviews.csv', 'model': 'prajjwal1/bert-tiny', 'root': './tokenizer'}
    """
    if isinstance(value, dict):
        return {name: _without_places(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_without_places(part) for part in value]
    if not isinstance(value, str) or value.startswith(HERE):
        return value
    path = PurePath(value)
    is_place = path.is_absolute() or value.startswith(("~", "..")) or (len(path.parts) > 1 and _exists(value))
    return path.name if is_place else value


def _exists(value: str) -> bool:
    try:
        return Path(value).exists()
    except (OSError, ValueError):
        return False
