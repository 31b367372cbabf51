"""An audit whose new rows decide: what changed there, whom it asks, what answers come to, and what is trained then."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from PIL import Image

from logit_correction import Audit, InputError, InputWarning, RunConfig, audit, from_table, train
from logit_correction.cli import main
from logit_correction.data.table import DataTable
from logit_correction.finding_text import describe_finding
from logit_correction.shortcuts import candidates, new_rows
from logit_correction.shortcuts.new_rows_table import NewRows
from logit_correction.shortcuts.sheets import add_answers

from .conftest import SHIFTED_FRAME, SHORT, TRAINING_FRAME, draw_patients, fill_sheet, get_predictions

NAMES = ("ill", "well")


@pytest.fixture
def copy(shifted_audit: Audit, tmp_path: Path) -> Audit:
    return Audit(shutil.copytree(shifted_audit.path, tmp_path / "copy"))


def test_audit_finds_a_shift_and_asks_for_labels(shifted_audit: Audit) -> None:
    new = shifted_audit.summary["new_rows"]
    assert new["changed"] and new["likely"] <= 0.05
    differs = {
        candidate["name"]: (candidate["differs_usual"], candidate["differs_new"]) for candidate in new["candidates"]
    }
    assert differs["ERM without the column scanner"][1] > differs["ERM without the column scanner"][0] + 0.05
    assert (shifted_audit.verdict, shifted_audit.views, new["chosen"]) == ("cannot tell", [], None)
    assert shifted_audit.advised_config.method.name == "ERM" and not (shifted_audit.path / "fix.yaml").exists()
    assert (new["rows"], new["labelled"], new["usual_rows"], new["asked"], new["answers"]) == (300, 0, 180, 20, 0)
    names = [candidate["name"] for candidate in new["candidates"]]
    assert names == ["ERM", "LC by the column scanner", "ERM without the column scanner", "LC by Online"]
    sheet = pd.read_csv(shifted_audit.path / "sheet.csv")
    assert (
        list(sheet) == ["row", "content", "answer"] and sheet["answer"].isna().all()
    )  # no estimate influences the answers
    for row, content in zip(sheet["row"], sheet["content"], strict=True):  # in any order of the columns
        patient = SHIFTED_FRAME.iloc[row]
        assert f"scanner {patient['scanner']}" in content and f"{patient['age']}"[:4] in content
    asked_predictions = get_predictions(shifted_audit.new_rows)[:, sheet["row"]]
    disputed_share = (asked_predictions != asked_predictions[0]).any(axis=0).mean()
    disputed_share_of_all = (
        (get_predictions(shifted_audit.new_rows) != get_predictions(shifted_audit.new_rows)[0]).any(axis=0).mean()
    )
    assert (
        0.5 <= disputed_share < 1 and disputed_share > disputed_share_of_all
    )  # half of them are drawn from all rows, for the accuracy on these


def test_two_processes_train_the_candidates_of_one(
    shifted_audit: Audit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(candidates, "count_available_cores", lambda: 2)
    new = SHIFTED_FRAME.drop(columns="outcome")[["scanner", "blood", "age"]]
    other_audit = audit(TRAINING_FRAME, tmp_path / "out", new_rows=new, **SHORT)
    pd.testing.assert_frame_equal(other_audit.new_rows, shifted_audit.new_rows)


@pytest.mark.parametrize("num_cores", [1, 2])
def test_candidate_that_cannot_be_trained_is_left_out(
    num_cores: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train_candidate = candidates.train_candidate

    def refuse_online(candidate: candidates.Candidate, table: DataTable) -> candidates.TrainedCandidate:
        if candidate.name == "LC by Online":
            raise InputError("A label has too few rows.")
        return train_candidate(candidate, table)

    monkeypatch.setattr(candidates, "train_candidate", refuse_online)
    monkeypatch.setattr(candidates, "count_available_cores", lambda: num_cores)
    new = SHIFTED_FRAME.drop(columns="outcome")
    result = audit(TRAINING_FRAME, tmp_path / "out", new_rows=new, **SHORT | {"epochs": 1})
    names = [candidate["name"] for candidate in result.summary["new_rows"]["candidates"]]
    assert names == ["ERM", "LC by the column scanner", "ERM without the column scanner"]


def test_columns_of_new_rows_are_matched_by_name(shifted_audit: Audit) -> None:
    """ERM, trained again, says of the rows in the old order what it said of those in the new one."""
    run = shifted_audit.fix()
    assert (run.predict(SHIFTED_FRAME) == np.array(NAMES)[get_predictions(shifted_audit.new_rows)[0]]).all()


def read_page(audit: Audit) -> str:
    return (audit.path / "report.html").read_text(encoding="utf-8").replace("\u00a0", " ")


def test_page_shows_shift_candidates_rows_to_label_and_commands(shifted_audit: Audit) -> None:
    page = read_page(shifted_audit)
    headline = re.search(r'<p class="verdict">(.*?)</p>', page)
    assert headline and headline[1] == "The new rows differ from the training data. Label 20 of them."
    assert page.index(headline[0]) < page.index("What to do") < page.index("What might be trained")
    assert "logit-correction audit --answers out/sheet.csv --out out" in page.replace(
        f"{shifted_audit.path.parent}/", ""
    )
    assert "fix.yaml" not in page
    assert "`" not in re.sub(r"<(style|script).*?</\1>", "", page, flags=re.DOTALL)


def test_page_lists_the_rows_to_label_in_the_order_of_the_sheet(shifted_audit: Audit) -> None:
    """In random order, so that the first few answers are a random part of the sheet."""
    listed_rows = re.findall(r'<li><p class="name">row (\d+)</p><dl>(.*?)</dl>', read_page(shifted_audit))
    sheet = pd.read_csv(shifted_audit.path / "sheet.csv")
    assert [int(row) for row, _ in listed_rows] == sheet["row"].tolist() != sorted(sheet["row"])
    for (_, fields), content in zip(listed_rows, sheet["content"], strict=True):
        pairs = re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", fields)
        assert ", ".join(f"{name} {value}" for name, value in pairs) == content


def test_notebook_shows_the_form_that_saves_the_sheet(copy: Audit) -> None:
    sheet = copy.ask(25)
    form = sheet._repr_html_()
    assert "srcdoc=" in form and "<script>" not in form and "Save sheet.csv" in form
    assert len(sheet) == 25 and type(sheet[["row", "answer"]].iloc[:3]) is pd.DataFrame
    assert (copy.path / "sheet.csv").read_text() == sheet.to_csv(index=False)


def test_answers_in_several_rounds_select_the_correction(copy: Audit, tmp_path: Path) -> None:
    sheet = fill_sheet(copy)
    sheet["answer"] = [f"  {name.upper()} " for name in sheet["answer"]]
    sheet.loc[7:, "answer"] = ""
    sheet.to_csv(tmp_path / "some.csv", index=False)
    first_summary = copy.answer(tmp_path / "some.csv").summary["new_rows"]
    assert (first_summary["answers"], first_summary["sheet_answers"], first_summary["asked"]) == (7, 7, 20)
    copy.answer(fill_sheet(copy).iloc[::-1].reset_index(drop=True))  # as a frame, in another order
    second_sheet = copy.ask(30)
    assert len(second_sheet) == 30 and not set(second_sheet["row"]) & set(sheet["row"])
    second_sheet["answer"] = SHIFTED_FRAME["outcome"][second_sheet["row"]].to_numpy()
    copy.answer(second_sheet)
    new = copy.summary["new_rows"]
    rows = copy.new_rows
    assert (new["answers"], new["sheet_answers"], new["asked"]) == (50, 50, 50)
    assert sorted(rows["round"].value_counts().to_dict().items()) == [(-1, 250), (1, 20), (2, 30)]
    is_answered = rows["label_number"] >= 0
    assert (
        np.array(NAMES)[rows["label_number"][is_answered]] == SHIFTED_FRAME["outcome"][is_answered.to_numpy()]
    ).all()
    # The choice is right: no candidate gains clearly more on all rows, whose labels only this test has.
    truth = np.array([NAMES.index(label) for label in SHIFTED_FRAME["outcome"]])
    gains = (get_predictions(rows) == truth).mean(axis=1) - (get_predictions(rows)[0] == truth).mean()
    assert copy.verdict == "shortcut" and copy.views == ["column:scanner"]
    gain = (compute_average_prediction(copy) == truth).mean() - (get_predictions(rows)[0] == truth).mean()
    assert gain > 0.05 and gain > gains.max() - 0.05
    average = new["average"]
    assert average["gain_low"] - 0.05 < gain < average["gain_high"] + 0.05  # shrunk towards a small loss
    for kind, share in (
        ("accuracy", (compute_average_prediction(copy) == truth).mean()),
        ("erm_accuracy", (get_predictions(rows)[0] == truth).mean()),
    ):
        assert average[kind]["low"] - 0.05 < share < average[kind]["high"] + 0.05
    difference = average["accuracy"]["accuracy"] - average["erm_accuracy"]["accuracy"]
    assert difference == pytest.approx(average["gain"])  # figures of one sentence agree
    assert sum(label["probability_best"] for label in new["candidates"]) == pytest.approx(1)
    assert "fix.yaml" in read_page(copy) and "By 50 labelled new rows" in repr(copy)
    assert Audit(copy.path).summary == copy.summary  # sealed and whole


def compute_average_prediction(answered: Audit) -> np.ndarray:
    """What the average says of the new rows, by the weights that are written and the logits that are kept."""
    weight = np.array([candidate["weight"] for candidate in answered.summary["new_rows"]["candidates"]])
    logits = np.load(answered.path / "new_rows.npz")["logits"]
    return np.tensordot(weight, logits - logits.mean(axis=2, keepdims=True), axes=1).argmax(axis=1)


def test_advised_average_is_trained_and_predicts_as_in_the_audit(copy: Audit, tmp_path: Path) -> None:
    copy.answer(fill_sheet(copy))
    fix = yaml.safe_load((copy.path / "fix.yaml").read_text())
    weight = {
        candidate["name"]: candidate["weight"]
        for candidate in copy.summary["new_rows"]["candidates"]
        if candidate["weight"]
    }
    assert fix["method"]["name"] == "Average"
    assert {candidate["name"]: candidate["weight"] for candidate in fix["method"]["members"]} == pytest.approx(
        weight, abs=1e-3
    )
    with np.load(fix["method"]["answers"]) as answers:
        assert sorted(answers["label"]) == sorted(NAMES.index(name) for name in fill_sheet(copy)["answer"])
    run = copy.fix(tmp_path / "fixed")
    assert run.report.method == "Average"
    assert (run.predict(SHIFTED_FRAME) == SHIFTED_FRAME["outcome"]).mean() > 0.75
    plan = RunConfig.from_dict({**fix, "method": {**fix["method"], "answers": None}, "refit": False})
    untaught = train(plan, tmp_path / "untaught", page=False)
    assert (untaught.predict(SHIFTED_FRAME) == np.array(NAMES)[compute_average_prediction(copy)]).all()
    assert Audit(copy.path).advised_config == copy.advised_config


def test_single_candidate_is_trained_without_a_left_out_column(copy: Audit, tmp_path: Path) -> None:
    copy.answer(fill_sheet(copy), single=True)
    new = copy.summary["new_rows"]
    assert not (copy.path / "answers.npz").exists()
    assert new["chosen"] == read_name_of_trained_candidate(copy)
    assert {candidate["name"]: candidate["weight"] for candidate in new["candidates"] if candidate["weight"]} == {
        new["chosen"]: 1
    }
    assert new["gain"] == new["average"]["gain"] == max(candidate["gain"] for candidate in new["candidates"])
    run = copy.fix(tmp_path / "fixed")
    other_frame = SHIFTED_FRAME.assign(scanner=np.where(SHIFTED_FRAME["scanner"] == "old", "new", "old"))
    before = run.predict_proba(SHIFTED_FRAME)
    after = run.predict_proba(other_frame)
    assert (run.predict(SHIFTED_FRAME) == SHIFTED_FRAME["outcome"]).mean() > 0.75
    leaves_out = run.config.training.leave_out
    assert np.array_equal(before, after) == (leaves_out == ["column:scanner"])
    plan = copy.result.selection.candidates[2].config
    blind = train(RunConfig.from_dict(plan), tmp_path / "blind", page=False)
    assert np.array_equal(blind.predict_proba(SHIFTED_FRAME), blind.predict_proba(other_frame))
    assert (
        blind.predict(SHIFTED_FRAME) == np.array(NAMES)[get_predictions(copy.new_rows)[2]]
    ).all()  # what the audit asked


def test_inputs_too_large_to_store_give_a_note_on_the_correction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(new_rows, "MAX_INPUT_BYTES", 100)
    large_audit = audit(TRAINING_FRAME, tmp_path / "out", new_rows=SHIFTED_FRAME.drop(columns="outcome"), **SHORT)
    assert "learns no correction" not in repr(large_audit)
    large_audit.answer(fill_sheet(large_audit))
    assert (
        not large_audit.summary["new_rows"]["learns_from_answers"] and not (large_audit.path / "answers.npz").exists()
    )
    assert "learns no correction from the answers, since the inputs" in repr(large_audit)
    assert "learns no correction from the answers, since the inputs" in read_page(large_audit)
    assert "answers" not in yaml.safe_load((large_audit.path / "fix.yaml").read_text())["method"]


def test_untrusted_audit_warns_that_it_learns_no_correction(
    copy: Audit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy.answer(fill_sheet(copy))
    monkeypatch.setenv("LOGIT_CORRECTION_CACHE", str(tmp_path / "cache"))  # as on another computer
    untrusted = Audit(copy.path)
    assert not untrusted.trust_code
    with pytest.warns(InputWarning, match="learns no correction from the answers, since .* is not trusted"):
        config = untrusted.build_training_config()
    assert not config.method.options.get("answers")


def read_name_of_trained_candidate(answered: Audit) -> str:
    """The candidate that fix.yaml trains."""
    fix = yaml.safe_load((answered.path / "fix.yaml").read_text()) | {"refit": False}
    return next(
        candidate["name"] for candidate in answered.summary["new_rows"]["candidates"] if candidate["config"] == fix
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda sheet: sheet.assign(answer="sick"), r"'sick' is not a label.*the labels are ill, well"),
        (lambda sheet: sheet.assign(answer="sick" * 999), r"'(sick){15}' is not a label"),
        (lambda sheet: sheet.assign(answer=""), "has no answer: fill in the column answer"),
        (lambda sheet: sheet.assign(row=10**6), "row 1000000 was not asked"),
        (lambda sheet: pd.DataFrame({"row": [*{*range(300)} - {*sheet["row"]}][:1], "answer": "ill"}), "was not asked"),
        (lambda sheet: sheet.assign(row=-1), "row -1 was not asked"),
        (lambda sheet: pd.concat([sheet, sheet[:1]]), "is there twice"),
        (lambda sheet: sheet.assign(content=sheet["content"].str.replace("scanner", "Scanner")), "of another audit"),
        (lambda sheet: sheet.assign(row=sheet["row"].to_numpy()[::-1]), "of another audit"),
        (lambda sheet: sheet.assign(content="\u043f\u043b\u043e\u0445\u043e"), "of another audit"),
        (lambda sheet: sheet.drop(columns="answer"), "answer"),
        (lambda sheet: sheet.drop(columns="row"), "row"),
    ],
)
def test_wrong_sheet_is_refused_and_changes_nothing(
    change: Callable[[pd.DataFrame], pd.DataFrame], message: str, copy: Audit, tmp_path: Path
) -> None:
    change(fill_sheet(copy)).to_csv(tmp_path / "wrong.csv", index=False)
    before = {path.name: path.read_bytes() for path in copy.path.iterdir() if path.is_file()}
    for wrong_sheet in (tmp_path / "wrong.csv", change(fill_sheet(copy))):
        with pytest.raises(InputError, match=message):
            copy.answer(wrong_sheet)
    assert {path.name: path.read_bytes() for path in copy.path.iterdir() if path.is_file()} == before


def test_sheet_with_answers_is_not_overwritten(copy: Audit) -> None:
    assert len(copy.ask(10)) == 20 and len(copy.ask(25)) == 25  # including those without an answer
    sheet = pd.read_csv(copy.path / "sheet.csv", dtype=object)
    sheet.loc[3, "answer"] = "ill"
    sheet.to_csv(copy.path / "sheet.csv", index=False)
    with pytest.raises(InputError, match=r"sheet.csv is filled in: read it first, by `answers="):
        copy.ask(5)
    assert pd.read_csv(copy.path / "sheet.csv")["answer"].notna().sum() == 1
    assert len(copy.answer(copy.path / "sheet.csv").ask(5)) == 24


def test_new_rows_without_a_shift_need_no_labels(tmp_path: Path) -> None:
    similar_frame = draw_patients(300, 2, 0.94)
    similar_audit = audit(TRAINING_FRAME, tmp_path / "like", new_rows=similar_frame.drop(columns="outcome"), **SHORT)
    new = similar_audit.summary["new_rows"]
    assert not new["changed"] and new["chosen"] == "ERM" and new["asked"] == 0
    assert (similar_audit.verdict, similar_audit.views) == ("none found", []) and not (
        similar_audit.path / "sheet.csv"
    ).exists()
    page = read_page(similar_audit)
    assert "Train ERM: no shift was found in the new rows." in page and "fix.yaml --out ordinary" in page
    assert similar_audit.advised_config.method.name == "ERM"


def test_labels_in_new_rows_count_as_answers(tmp_path: Path) -> None:
    SHIFTED_FRAME.assign(outcome=SHIFTED_FRAME["outcome"].where(SHIFTED_FRAME.index % 2 == 0)).to_csv(
        tmp_path / "new.csv", index=False
    )
    labelled_audit = audit(TRAINING_FRAME, tmp_path / "some", new_rows=tmp_path / "new.csv", **SHORT)
    new = labelled_audit.summary["new_rows"]
    rows = labelled_audit.new_rows
    assert (
        new["labelled"] == new["answers"] == 150
        and new["asked"] == 0
        and not (labelled_audit.path / "sheet.csv").exists()
    )
    assert rows["line"].tolist() == list(range(2, 302)) and (rows["label_number"][1::2] < 0).all()
    truth = np.array([NAMES.index(label) for label in SHIFTED_FRAME["outcome"]])
    assert (rows["label_number"][::2] == truth[::2]).all()
    assert labelled_audit.verdict == "shortcut" and labelled_audit.views == ["column:scanner"]
    members = yaml.safe_load((labelled_audit.path / "fix.yaml").read_text())["method"]["members"]
    assert new["chosen"] in [member["name"] for member in members]


def test_wrong_new_rows_are_refused_before_training(tmp_path: Path) -> None:
    sick = SHIFTED_FRAME.assign(outcome=np.where(SHIFTED_FRAME.index == 5, "sick", "ill"))
    sick.to_csv(tmp_path / "sick.csv", index=False)
    pd.concat([SHIFTED_FRAME, sick]).drop(columns="age").to_csv(tmp_path / "narrow.csv", index=False)
    for new, message in (
        (sick, r"1 has a label that is not .*'sick' of row 5: the labels are ill, well; leave unknown ones empty"),
        (tmp_path / "sick.csv", r"'sick' of line 7"),
        (pd.concat([sick] * 3), r"3 have labels that are not .*'sick' of row 5"),
        (tmp_path / "narrow.csv", "age"),
        (tmp_path / "none.csv", r"none\.csv"),
    ):
        with pytest.raises(InputError, match=message):
            audit(TRAINING_FRAME, tmp_path / "out", new_rows=new, **SHORT)
        assert not (tmp_path / "out").exists()


def test_split_new_holds_new_rows_whose_labels_the_search_does_not_read(tmp_path: Path) -> None:
    label = pd.Series(SHIFTED_FRAME["outcome"])
    forms = {
        "true": label,
        "dropped": np.where(SHIFTED_FRAME.index < 0, label, None),
    }
    predictions = {}
    audits = {}
    for name, outcome in forms.items():
        split = ["train", "train", "train", "valid", "test"] * (len(TRAINING_FRAME) // 5)
        all_rows = pd.concat(
            [TRAINING_FRAME.assign(part=split), SHIFTED_FRAME.assign(part="new", outcome=outcome)], ignore_index=True
        )
        data = from_table(all_rows, label="outcome", split="part", folder=tmp_path / f"of-{name}")
        split_audit = audit(data, epochs=3, threads=1)
        predictions[name] = get_predictions(split_audit.new_rows)
        audits[name] = split_audit
    assert (predictions["dropped"] == predictions["true"]).all()
    for key in ("evidence", "cost", "groups", "rows"):
        assert audits["dropped"].summary[key] == audits["true"].summary[key], key
    new = {name: split_audit_result.summary["new_rows"] for name, split_audit_result in audits.items()}
    assert new["dropped"]["labelled"] == 0 and new["dropped"]["asked"] == 20
    assert (
        new["true"]["labelled"] == 300 and new["true"]["changed"] and new["true"]["likely"] == new["dropped"]["likely"]
    )
    assert audits["true"].summary["data"]["rows"] == {"train": 360, "valid": 120, "test": 120, "new": 300}
    assert audits["true"].views == ["column:scanner"]


# -- images


def paint_photo(file: Path, bright: bool, red: bool, draw: np.random.Generator) -> None:
    pixels = draw.normal(90, 30, (10, 10, 3))
    pixels[3:7, 3:7] += 60 if bright else 0
    pixels[..., 0 if red else 2] += 40
    file.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(file)


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``old``, coloured by the label; ``new`` with a folder for each label, ``flat`` without, coloured at random."""
    folder = tmp_path_factory.mktemp("photos")
    draw = np.random.default_rng(0)
    for place, rows, bias in (("old", 240, 0.93), ("new", 80, 0.5)):
        for number in range(rows):
            bright = number % 2 == 0
            file = folder / place / ("bright" if bright else "dark") / f"{number}.png"
            paint_photo(file, bright, (draw.random() < bias) == bright, draw)
    for file in (folder / "new").glob("*/*"):
        (folder / "flat").mkdir(exist_ok=True)
        (folder / "flat" / file.name).write_bytes(file.read_bytes())
    return folder


def test_folder_new_next_to_the_splits_holds_new_rows(photos: Path, tmp_path: Path) -> None:
    for part, numbers in (("train", range(160)), ("valid", range(160, 200)), ("test", range(200, 240))):
        for number in numbers:
            name = f"{'dark' if number % 2 else 'bright'}/{number}.png"
            (tmp_path / "data" / part / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(photos / "old" / name, tmp_path / "data" / part / name)
    shutil.copytree(photos / "flat", tmp_path / "data" / "new")
    photo_audit = audit(tmp_path / "data", tmp_path / "out", size=10, epochs=2, threads=1, ask=6)
    new = photo_audit.summary["new_rows"]
    assert (new["rows"], new["labelled"]) == (80, 0) and photo_audit.summary["data"]["label_names"] == [
        "bright",
        "dark",
    ]
    assert {Path(path).parent.name for path in photo_audit.new_rows["path"]} == {"new"}
    assert photo_audit.summary["data"]["rows"] == {"train": 160, "valid": 40, "test": 40, "new": 80}
    sheet = pd.read_csv(photo_audit.path / "sheet.csv")
    page = (photo_audit.path / "report.html").read_text()
    section = page[page.index("Rows to label") :].partition("<h2")[0]
    assert list(sheet) == ["row", "path", "answer"] and section.count('<img src="data:image/png') == len(sheet) > 0


def test_options_that_exclude_new_rows_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="ask is 0"):
        audit(TRAINING_FRAME, tmp_path / "out", ask=0, new_rows=SHIFTED_FRAME, **SHORT)
    class_probabilities = pd.DataFrame({"row": range(600), "probability_ill": 0.6, "probability_well": 0.4})
    class_probabilities.to_csv(tmp_path / "said.csv", index=False)
    with pytest.raises(InputError, match="give one of the two"):
        audit(TRAINING_FRAME, tmp_path / "out", new_rows=SHIFTED_FRAME, predictions=tmp_path / "said.csv", **SHORT)
    assert not (tmp_path / "out").exists()


def test_audit_without_new_rows_explains_how_to_give_them(formula_audit: Audit) -> None:
    assert formula_audit.summary["new_rows"] is None
    for access in (lambda: formula_audit.new_rows, formula_audit.ask, lambda: formula_audit.answer(SHIFTED_FRAME)):
        with pytest.raises(InputError, match="audit again with `new_rows`"):
            access()


def test_unknown_label_folder_of_new_images_is_refused(photos: Path, tmp_path: Path) -> None:
    for names in (("Bright", "DARK"), ("bright", "Dark"), ("bright", "dim")):
        folder = tmp_path / "-".join(names)
        for name, original_name in zip(names, ("bright", "dark"), strict=True):
            shutil.copytree(photos / "new" / original_name, folder / name)
        wrong = next(name for name in names if name not in ("bright", "dark"))
        with pytest.raises(InputError, match=rf"not in the training data, such as '{wrong}'.*bright, dark"):
            audit(photos / "old", tmp_path / "out", new_rows=folder, size=10, epochs=2, threads=1)
        assert not (tmp_path / "out").exists()


def test_label_folders_inside_other_folders_are_named(photos: Path, tmp_path: Path) -> None:
    shutil.copytree(photos / "new", tmp_path / "new" / "site")
    with pytest.warns(InputWarning, match=r"labels are read from folders directly in .*new/site/bright"):
        photo_audit = audit(photos / "old", tmp_path / "out", new_rows=tmp_path / "new", size=10, epochs=1, threads=1)
    assert photo_audit.summary["new_rows"]["labelled"] == 0
    (note,) = photo_audit.summary["new_rows"]["notes"]
    assert "labels are read from folders directly in" in note and note in read_page(photo_audit)


def test_new_photos_have_the_labels_of_their_folders_and_others_none(photos: Path, tmp_path: Path) -> None:
    new = Path(shutil.copytree(photos / "new", tmp_path / "new"))
    loose = sorted(path.name for path in (new / "dark").iterdir())[:3]
    for name in loose:
        shutil.move(new / "dark" / name, new / name)
    with pytest.warns(InputWarning, match=rf"3 rows beside the folders of labels.*{loose[0]}"):
        photo_audit = audit(photos / "old", tmp_path / "out", new_rows=new, size=10, epochs=2, threads=1)
    rows = photo_audit.new_rows
    unknown = rows[rows["label_number"] < 0]
    assert len(rows) == 80 and sorted(Path(path).name for path in unknown["path"]) == loose
    true = [int(Path(path).stem) % 2 for path in rows["path"]]
    assert rows["label_number"].where(rows["label_number"] >= 0, true).tolist() == true
    assert photo_audit.summary["new_rows"]["labelled"] == 77


def test_new_photos_that_are_links_are_left_out_with_a_command_that_copies_them(photos: Path, tmp_path: Path) -> None:
    new = tmp_path / "new"
    new.mkdir()
    images = sorted((photos / "new").rglob("*.png"))
    for image in images:
        (new / image.name).symlink_to(image)
    with pytest.raises(InputError, match=r"leaves the folder, to .*/new/bright, .*made by `cp -RL \S+/new \S+`"):
        audit(photos / "old", tmp_path / "out", new_rows=new, size=10, epochs=1, threads=1)
    (new / images[0].name).unlink()
    shutil.copy(images[0], new)
    with pytest.warns(InputWarning, match="made by `cp -RL"):
        photo_audit = audit(photos / "old", tmp_path / "out", new_rows=new, size=10, epochs=1, threads=1)
    assert photo_audit.summary["new_rows"]["rows"] == 1 and "cp -RL" in read_page(photo_audit)


def test_unreadable_new_rows_are_left_out_with_one_warning(tmp_path: Path) -> None:
    new = SHIFTED_FRAME.drop(columns="outcome").astype({"age": object})
    new.loc[[2, 7], "age"] = "unknown?"
    new.to_csv(tmp_path / "new.csv", index=False)
    with pytest.warns(InputWarning) as warnings:
        partial_audit = audit(TRAINING_FRAME, tmp_path / "out", new_rows=tmp_path / "new.csv", **SHORT)
    texts = [str(warning.message) for warning in warnings if "left out of the new rows" in str(warning.message)]
    assert len(texts) == 1 and "2 rows" in texts[0] and "line 4" in texts[0] and "line 9" in texts[0]
    assert partial_audit.summary["new_rows"]["notes"] == texts and "2 rows left out" in read_page(partial_audit)
    rows = partial_audit.new_rows
    assert rows["row"].tolist() == [row for row in range(300) if row not in (2, 7)]
    assert (rows["line"] == rows["row"] + 2).all()
    sheet = pd.read_csv(partial_audit.path / "sheet.csv", dtype={"answer": object})
    sheet["answer"] = SHIFTED_FRAME["outcome"].to_numpy()[sheet["row"]]
    with_gap = pd.concat([sheet.astype({"row": float, "line": float}), pd.DataFrame([{}])])  # 126 is then 126.0
    with_gap.to_csv(tmp_path / "with_gap.csv", index=False)
    partial_audit.answer(tmp_path / "with_gap.csv")
    answered_rows = partial_audit.new_rows[partial_audit.new_rows["label_number"] >= 0]
    assert (
        np.array(NAMES)[answered_rows["label_number"]] == SHIFTED_FRAME["outcome"].to_numpy()[answered_rows["row"]]
    ).all()


def test_warnings_of_new_rows_are_given_though_reading_them_fails(tmp_path: Path) -> None:
    new = SHIFTED_FRAME.astype({"age": float, "outcome": object})
    new.loc[3, "age"] = 1e6
    new.loc[4, "outcome"] = "unheard of"
    with pytest.warns(InputWarning, match="age.*1000000"), pytest.raises(InputError, match="unheard of"):
        audit(TRAINING_FRAME, tmp_path / "out", new_rows=new, **SHORT)


def test_sheet_saved_by_a_spreadsheet_program_is_read(copy: Audit, tmp_path: Path) -> None:
    sheet = fill_sheet(copy)
    sheet["row"] = [f"{row}.0" for row in sheet["row"]]
    sheet.columns = ["Row", "content", " Answer"]
    sheet.to_csv(tmp_path / "again.csv", index=False)
    assert copy.answer(tmp_path / "again.csv").summary["new_rows"]["answers"] == 20
    sheet.assign(**{" Answer": "ill"}).to_csv(tmp_path / "unicode.csv", index=False, encoding="utf-16", sep="\t")
    again = copy.answer(tmp_path / "unicode.csv", replace_answers=True)
    assert (again.new_rows["label_number"] >= 0).sum() == 20
    rewritten = sheet.assign(content=[f" {content}\r\n".replace(" ", "\n") for content in sheet["content"]])
    rewritten.loc[0, "content"] = None
    assert (
        copy.answer(rewritten.assign(**{" Answer": "well"}), replace_answers=True).summary["new_rows"]["answers"] == 20
    )
    with pytest.raises(InputError, match="more than one column 'answer'"):
        copy.answer(sheet.assign(answer="ill"))
    for row in ("9" * 5000, "-1", "1.5"):
        with pytest.raises(InputError, match="was not asked"):
            copy.answer(pd.DataFrame({"row": [row], "answer": "ill"}))


@pytest.mark.parametrize(
    ("content", "cell", "is_same"),
    [
        ("Der K\u00e4se ist gut", "Der K\u00e4se ist gut".encode().decode("cp1252"), True),
        ("Der K\u00e4se ist gut", "Der K?se ist gut", True),
        ("Der K\u00e4se ist gut", "Der K\u00e4se ist schlecht", False),
        ("\u043f\u043b\u043e\u0445\u043e", "\u0445\u043e\u0440\u043e\u0448\u043e", False),
        ("-1.5", "15", False),
    ],
)
def test_content_of_a_sheet_is_known_again_after_a_change_of_encoding(content: str, cell: str, is_same: bool) -> None:
    rows = NewRows(
        pd.DataFrame({"row": [0], "content": [content]}),
        np.array([-1]),
        np.array([1]),
        np.array([[0], [1]]),
        np.zeros((2, 1)),
        {1: np.ones(1)},
    )
    sheet = pd.DataFrame({"row": [0], "content": [cell], "answer": ["well"]})
    if is_same:
        assert add_answers(rows, sheet, ["ill", "well"], False).label.tolist() == [1]
    else:
        with pytest.raises(InputError, match="of another audit"):
            add_answers(rows, sheet, ["ill", "well"], False)


def test_missing_new_rows_or_the_data_as_new_rows_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "data.csv"
    TRAINING_FRAME.to_csv(data, index=False)
    (tmp_path / "again.csv").symlink_to(data)
    words = ["--data", str(data), "--data.label", "outcome", "--epochs", "1", "--threads", "1"]
    for place, reason in (
        ("nowhere.csv", "does not exist"),
        ("data.csv", "the data themselves"),
        ("again.csv", "the data"),
    ):
        for command in ("audit", "train"):
            new = str(tmp_path / place)
            assert main([command, *words, "--new-rows", new, "--out", str(tmp_path / "out")]) == 2
            error_message = capsys.readouterr().err
            assert error_message.count("\n") == 1 and place in error_message and reason in error_message
    assert {path.name for path in tmp_path.iterdir()} == {"data.csv", "again.csv"}


def test_finding_of_a_run_says_who_named_the_shortcut(copy: Audit, tmp_path: Path) -> None:
    config = copy.result.selection.candidates[1].config  # LC by the column scanner, as answers choose it
    by_answers = train(RunConfig.from_dict(config), tmp_path / "answers", page=False)
    assert "You named" not in describe_finding(by_answers.report.finding) and "new rows" in describe_finding(
        by_answers.report.finding
    )
    named_run = train(TRAINING_FRAME, tmp_path / "named", shortcut="column:scanner", page=False, **SHORT)
    assert "You named this shortcut" in describe_finding(named_run.report.finding)
