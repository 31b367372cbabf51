"""Do the examples of other people's training code reach our own loop, with the same network and as many epochs?

    python lab/scripts/integrations.py --out integrations.md

Every example that has a loop of its own, but the stream, and every run of our own loop, is trained with each seed; the
table holds mean and standard deviation of accuracies on the test split. What takes the loss alone is compared with LC
without mixing, as the loss does not mix.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

ROOT = Path(__file__).parents[2]
FIGURES = ("group_balanced", "worst_group")

#: What an example is compared with: name -> (own run, examples).
COMPARED = {
    "LC without mixing, MLP": ("unmixed", ["pytorch_loop", "accelerate_loop", "lightning_callback"]),
    "LC without mixing, timm": ("timm", ["timm_model"]),
    "LC without mixing, BERT": ("bert", ["transformers_trainer"]),
}


def own(name: str, epochs: int, seed: int) -> dict[str, float]:
    """Train a run of our own loop and return its figures."""
    from logit_correction import train

    unmixed = {"name": "LC", "mixing": "NoMixing"}
    parts: dict[str, dict[str, Any]] = {
        "unmixed": {"method": unmixed, "network": "MLP"},
        # The views that a search finds are named, as a search would train these networks in folds.
        "timm": {"method": unmixed, "shortcut": ["colour"], "network": {"name": "Timm", "model": "test_resnet"}},
        "bert": {"method": unmixed, "shortcut": ["word"]},
    }
    options = parts[name] | {"epochs": epochs, "batch_size": 32, "seed": seed, "threads": 1, "page": False}
    options["selection"] = "last"  # as the examples
    with tempfile.TemporaryDirectory() as folder:
        data: Any = "Digits"
        if name == "bert":
            data, options["network"] = reviews(Path(folder))
        test = train(data, Path(folder) / "run", **options).report["test"]
    return {figure: test[figure] for figure in FIGURES}


def reviews(folder: Path) -> tuple[Any, dict[str, Any]]:
    """Return the reviews of the example as a table, and its BERT, both for our own loop."""
    import pandas as pd
    from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    from logit_correction import from_table
    from logit_correction_lab.sources.planted import Planted

    example = importlib.import_module("transformers_trainer")
    table = Planted("signature").build()
    assert table.texts is not None
    split = {row: name for name, rows in table.split.items() for row in rows.tolist()}
    frame = pd.DataFrame({"text": table.texts, "label": table.label.numpy(), "attribute": table.attribute.numpy()})
    frame["split"] = [split[row] for row in range(len(frame))]
    words = sorted({word for text in frame.text[frame.split == "train"] for word in example.words_of(text)})
    numbers = {word: number for number, word in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *words])}
    tokenizer = Tokenizer(models.WordLevel(numbers, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"\w+|[^\w\s]|\s+"), "isolated")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), tokenizer.pre_tokenizer])
    marks = [("[CLS]", 2), ("[SEP]", 3)]
    tokenizer.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=marks)
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]").save_pretrained(folder)
    sizes = {"vocab_size": len(numbers), "max_position_embeddings": example.LENGTH, **example.SIZES}
    BertModel(BertConfig(**sizes)).save_pretrained(folder)
    form = {"text": "text", "tokenizer": str(folder), "max_tokens": example.LENGTH, "split": "split"}
    data = from_table(frame, label="label", attribute="attribute", folder=folder, **form)
    return data, {"name": "TextClassifier", "model": str(folder), "weights": "none"}


def estimate_once() -> None:
    """Let examples that ask for the same estimates with the same seed share them."""
    module = importlib.import_module("logit_correction.runs.estimate")
    function, known = module.estimate_attributes, {}

    def shared(data: Any, label: Any = None, **options: Any) -> Any:
        key = type(data).__name__, len(label), repr(sorted(options.items()))
        if key not in known:
            known[key] = function(data, label, **options)
        return known[key]

    module.estimate_attributes = shared


def measured(kept: dict[str, Any], name: str, run: Callable[[], dict[str, float]], file: Path) -> dict[str, float]:
    """Return figures that were measured before, or measure them."""
    if name not in kept:
        kept[name] = run()
        file.write_text(json.dumps(kept, indent=1))
        print(name, kept[name], flush=True)
    found: dict[str, float] = kept[name]
    return found


def cell(rows: Sequence[dict[str, float]], figure: str) -> str:
    values = [100 * row[figure] for row in rows]
    return f"{mean(values):.1f} ± {stdev(values):.1f}" if len(values) > 1 else f"{values[0]:.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--only", nargs="+", choices=list(COMPARED), default=list(COMPARED))
    parser.add_argument("--out", type=Path, default=Path("integrations.md"), help="the table; figures lie beside it")
    options = parser.parse_args()
    sys.path.insert(0, str(ROOT / "examples"))
    estimate_once()
    file = options.out.with_suffix(".json")
    kept = json.loads(file.read_text()) if file.is_file() else {}
    lines = ["| training code | group-balanced % | worst group % |", "|---|---:|---:|"]
    for title in options.only:
        name, examples = COMPARED[title]
        runs: dict[str, Callable[[int], dict[str, float]]] = {
            f"`train`: {title}": lambda seed, name=name: own(name, options.epochs, seed)
        }
        for one in examples:
            runs[f"`{one}.py`"] = lambda seed, one=one: importlib.import_module(one).main(options.epochs, seed)
        for label, run in runs.items():
            rows = [
                measured(kept, f"{label}, {options.epochs} epochs, seed {seed}", lambda r=run, s=seed: r(s), file)
                for seed in options.seeds
            ]
            lines.append(f"| {label} | {' | '.join(cell(rows, figure) for figure in FIGURES)} |")
    options.out.write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
