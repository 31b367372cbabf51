"""What other tools flag on the planted sets and their controls, each by its own default condition.

    python lab/scripts/audit_export.py --out planted-export                        # with this package installed
    python lab/scripts/audit_tools.py cleanlab --data planted-export --out DIR     # with the tool alone installed
    python lab/scripts/audit_tools.py deepchecks --data planted-export --out DIR
    python lab/scripts/audit_tools.py giskard --data planted-export --out DIR

Measured in a virtual environment for each tool, Python 3.11: ``cleanlab[datalab,image]``; ``deepchecks[vision]`` with
textblob, nltk, transformers, torch, torchvision, scikit-learn<1.6, numpy<2, pandas<2.3; ``giskard`` with pandas<3.

Each tool reads inputs and labels, nothing else, and writes ``DIR/TOOL.json``: for each set what it scored, what it
flagged, or why it could not look. ``audit_tools_table.py`` judges them. A set that is finished is not run again.

cleanlab: ``Datalab.find_issues()`` on images, flagged below a score of 0.3. Deepchecks: ``PropertyLabelCorrelation`` on
images and texts, ``FeatureLabelCorrelation`` on tables, flagged where their condition without arguments fails; on
tables in most of ``RUNS`` runs. Giskard: the detectors of spurious correlation and data leakage, on a logistic
regression of three quarters of the rows, scanned on the last quarter.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shlex
import time
from collections.abc import Callable
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

#: Packages whose versions are written down.
PACKAGES = ("cleanlab", "cleanvision", "deepchecks", "giskard", "scikit-learn", "numpy", "pandas", "textblob", "nltk")

#: The check of tables draws its folds anew in every run, so that a score near the threshold now passes, now fails.
RUNS = 50

Found = dict[str, Any]


def labelled_files(folder: Path) -> tuple[list[Path], list[str]]:
    """Return the images of a set and their labels."""
    files = sorted(folder.glob("*/*.png"))
    return files, [file.parent.name for file in files]


def labelled_rows(folder: Path) -> Any:
    """Return the data frame of a set of texts or of a table."""
    import pandas as pd

    return pd.read_csv(folder / "rows.csv", keep_default_na=False)


def cleanlab(folder: Path, kind: str) -> Found | None:
    """Score the label against seven properties of images; lower is more strongly correlated."""
    if kind != "images":
        return None
    from cleanlab import Datalab
    from datasets import Dataset, Image

    files, label = labelled_files(folder)
    images = Dataset.from_dict({"image": [str(file) for file in files], "label": label}).cast_column("image", Image())
    lab = Datalab(images, label_name="label", image_key="image", verbosity=0)
    lab.find_issues()
    info = lab.get_info("spurious_correlations")
    scores = {
        name.removesuffix("_score"): float(score)
        for name, score in info["correlations_df"].set_index("property")["score"].items()
    }
    flagged = {name: score for name, score in scores.items() if score < info["threshold"]}
    counts = lab.get_issue_summary().set_index("issue_type")["num_issues"]
    others = {name: int(count) for name, count in counts.items() if count}
    return {"check": "spurious_correlations", "rule": f"score < {info['threshold']}", "scores": scores,
            "flagged": flagged, "rows with other issues": others}  # fmt: skip


def text_properties(texts: Any) -> Any:
    """Return those of Deepchecks' default properties of texts that need no download.

    ``calculate_builtin_properties`` calculates none where its language model, of fasttext, is not at hand. Left out:
    language, words per sentence, reading ease and lexical density.
    """
    import pandas as pd
    from deepchecks.nlp.utils import text_properties as builtin

    methods = {
        "Text Length": builtin.text_length,
        "Average Word Length": builtin.average_word_length,
        "Max Word Length": builtin.max_word_length,
        "% Special Characters": builtin.percentage_special_characters,
        "% Punctuation": builtin.percentage_punctuation,
        "Sentiment": builtin.sentiment,
        "Subjectivity": builtin.subjectivity,
    }
    return pd.DataFrame({name: [method(text) for text in texts] for name, method in methods.items()})


def deepchecks(folder: Path, kind: str) -> Found:
    """Score by the predictive power score of each property or column alone; higher is more strongly correlated."""
    if kind == "images":
        from deepchecks.vision import classification_dataset_from_directory
        from deepchecks.vision.checks import PropertyLabelCorrelation as Check

        data = classification_dataset_from_directory(
            str(folder), object_type="VisionData", image_extension="png", pin_memory=False
        )
        check = Check().add_condition_property_pps_less_than()
    elif kind == "texts":
        from deepchecks.nlp import TextData
        from deepchecks.nlp.checks import PropertyLabelCorrelation as Check

        frame = labelled_rows(folder)
        data = TextData(list(frame["text"]), label=list(frame["label"]), task_type="text_classification")
        data.set_properties(text_properties(frame["text"]))
        check = Check().add_condition_property_pps_less_than()
    else:
        from deepchecks.tabular import Dataset
        from deepchecks.tabular.checks import FeatureLabelCorrelation as Check

        data = Dataset(labelled_rows(folder), label="label")
        check = Check().add_condition_feature_pps_less_than()
    runs = [check.run(data, with_display=False) for _ in range(RUNS if kind == "table" else 1)]
    rules = [run.conditions_results[0] for run in runs]
    scores = {str(name): sum(run.value[name] for run in runs) / len(runs) for name in runs[0].value}
    # The condition says in words what failed: names and rounded scores, as Python writes a dictionary.
    failed = {name: sum(not rule.is_pass() and f"'{name}'" in rule.details for rule in rules) for name in scores}
    return {
        "check": type(check).__name__,
        "rule": rules[0].name,
        "scores": scores,
        "flagged": {name: scores[name] for name, count in failed.items() if count > len(runs) / 2},
        "runs": len(runs),
        "runs that flag": {name: count for name, count in failed.items() if count},
    }


def giskard(folder: Path, kind: str) -> Found | None:
    """Name slices of the rows whose prediction is strongly associated with being in the slice (Theil's U)."""
    if kind == "images":
        return None
    os.environ.setdefault("GSK_DISABLE_ANALYTICS", "True")
    from giskard import Dataset, Model, scan
    from sklearn.compose import make_column_selector, make_column_transformer
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import train_test_split
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    frame = labelled_rows(folder)
    names = [name for name in frame.columns if name != "label"]
    if kind == "texts":
        prepare, types = make_column_transformer((TfidfVectorizer(), "text")), {"text": "text"}
    else:
        prepare = make_column_transformer(
            (StandardScaler(), make_column_selector(dtype_include="number")),
            (OneHotEncoder(handle_unknown="ignore"), make_column_selector(dtype_exclude="number")),
        )
        types = {name: "numeric" if frame[name].dtype.kind in "if" else "category" for name in names}
    train, held = train_test_split(frame, test_size=0.25, stratify=frame["label"], random_state=0)
    model = make_pipeline(prepare, LogisticRegression(max_iter=1000)).fit(train[names], train["label"])
    wrapped = Model(
        model.predict_proba, model_type="classification", feature_names=names, classification_labels=model.classes_
    )
    report = scan(
        wrapped,
        Dataset(held.reset_index(drop=True), target="label", column_types=types),
        only=["spurious_correlation", "data_leakage"],
        verbose=False,
        raise_exceptions=True,
        max_issues_per_detector=None,
    )
    flagged = {
        str(issue.slicing_fn) if issue.slicing_fn else issue.group.name: issue.meta.get("metric_value")
        for issue in report.issues
    }
    return {"check": "spurious_correlation, data_leakage", "rule": "Theil's U > 0.5, or any leakage",
            "accuracy of the model": float(model.score(held[names], held["label"])), "flagged": flagged}  # fmt: skip


TOOLS: dict[str, Callable[[Path, str], Found | None]] = {
    "cleanlab": cleanlab,
    "deepchecks": deepchecks,
    "giskard": giskard,
}


def looked_at(tool: str, folder: Path) -> Found:
    """Run a tool on one set; an error of the tool is a result."""
    kind = json.loads((folder / "about.json").read_text())["kind"]
    began = time.perf_counter()
    try:
        found = TOOLS[tool](folder, kind) or {"error": f"no such check of {kind}"}
    except Exception as error:  # the tools raise all sorts, and the next set may work
        lines = str(error).strip().splitlines()
        found = {"error": f"{type(error).__name__}: {lines[0] if lines else ''}"}
    return found | {"kind": kind, "seconds": round(time.perf_counter() - began, 1)}


def versions() -> dict[str, str]:
    """Return the versions of what is installed of ``PACKAGES``, and of Python."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def main() -> None:
    """Run one tool on what it has not looked at yet."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tool", choices=TOOLS)
    parser.add_argument("--data", type=Path, required=True, help="the folder that audit_export.py has written")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    file = options.out / f"{options.tool}.json"
    sets = json.loads(file.read_text())["sets"] if file.is_file() else {}
    command = ["python", "lab/scripts/audit_tools.py", options.tool, "--data", options.data.name, "--out", "DIR"]
    about = {"versions": versions(), "date": date.today().isoformat(), "command": shlex.join(command)}
    for folder in sorted(path.parent for path in options.data.glob("[!.]*/about.json")):
        if folder.name in sets:
            continue
        sets[folder.name] = looked_at(options.tool, folder)
        print(folder.name, sets[folder.name].get("error", sets[folder.name].get("flagged")), flush=True)
        written(file, about | {"sets": sets})
    written(file, about | {"sets": sets})


def written(file: Path, content: dict[str, Any]) -> None:
    """Write a file of JSON that is complete or absent."""
    part = file.with_name(f".{file.name}")
    part.write_text(json.dumps(content, indent=1) + "\n")
    os.replace(part, file)


if __name__ == "__main__":
    main()
