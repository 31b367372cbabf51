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
from logit_correction.finding_text import describe_finding
from logit_correction.shortcuts import new_rows

from .conftest import CHANGED, OLD, SHORT, drawn, filled, says

NAMES = ("ill", "well")


@pytest.fixture
def copy(changed: Audit, tmp_path: Path) -> Audit:
    return Audit(shutil.copytree(changed.path, tmp_path / "copy"))


def test_a_change_is_found_asked_about_and_corrected_only_by_a_person(changed: Audit) -> None:
    new = changed.summary["new_rows"]
    assert new["changed"] and new["likely"] <= 0.05
    differs = {one["name"]: (one["differs_usual"], one["differs_new"]) for one in new["candidates"]}
    assert differs["ERM without the column scanner"][1] > differs["ERM without the column scanner"][0] + 0.05
    assert (changed.verdict, changed.views, new["chosen"]) == ("cannot tell", [], None)
    assert changed.advised_config.method.name == "ERM" and not (changed.path / "fix.yaml").exists()
    assert (new["rows"], new["labelled"], new["usual_rows"], new["asked"], new["answers"]) == (300, 0, 180, 20, 0)
    names = [one["name"] for one in new["candidates"]]
    assert names == ["ERM", "LC by the column scanner", "ERM without the column scanner", "LC by Online"]
    sheet = pd.read_csv(changed.path / "sheet.csv")
    assert list(sheet) == ["row", "content", "answer"] and sheet["answer"].isna().all()  # no estimate sways anybody
    for row, content in zip(sheet["row"], sheet["content"], strict=True):  # whatever the order of the columns is
        of = CHANGED.iloc[row]
        assert f"scanner {of['scanner']}" in content and f"{of['age']}"[:4] in content
    asked = says(changed.new_rows)[:, sheet["row"]]
    tells = (asked != asked[0]).any(axis=0).mean()
    of_all = (says(changed.new_rows) != says(changed.new_rows)[0]).any(axis=0).mean()
    assert 0.5 <= tells < 1 and tells > of_all  # half of them are drawn from all rows, for the accuracy on these


def test_the_columns_of_new_rows_are_known_by_their_names(changed: Audit) -> None:
    """ERM, trained again, says of the rows in the old order what it said of those in the new one."""
    run = changed.fix()
    assert (run.predict(CHANGED) == np.array(NAMES)[says(changed.new_rows)[0]]).all()


def plain(audit: Audit) -> str:
    return (audit.path / "report.html").read_text(encoding="utf-8").replace("\u00a0", " ")


def test_the_page_tells_the_change_the_candidates_the_rows_to_label_and_what_to_type(changed: Audit) -> None:
    page = plain(changed)
    headline = re.search(r'<p class="verdict">(.*?)</p>', page)
    assert headline and headline[1] == "The new rows differ from the training data. Label 20 of them."
    assert page.index(headline[0]) < page.index("What to do") < page.index("What might be trained")
    assert "logit-correction audit --answers out/sheet.csv --out out" in page.replace(f"{changed.path.parent}/", "")
    assert "fix.yaml" not in page
    assert "`" not in re.sub(r"<(style|script).*?</\1>", "", page, flags=re.DOTALL)


def test_the_page_lists_the_rows_to_label_by_name_and_value_in_the_order_of_the_sheet(changed: Audit) -> None:
    """In random order, so that the first few answers are a random part of the sheet."""
    listed = re.findall(r'<li><p class="name">row (\d+)</p><dl>(.*?)</dl>', plain(changed))
    sheet = pd.read_csv(changed.path / "sheet.csv")
    assert [int(row) for row, _ in listed] == sheet["row"].tolist() != sorted(sheet["row"])
    for (_, fields), content in zip(listed, sheet["content"], strict=True):
        pairs = re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", fields)
        assert ", ".join(f"{name} {value}" for name, value in pairs) == content


def test_a_notebook_shows_the_form_that_saves_the_sheet(copy: Audit) -> None:
    sheet = copy.ask(25)
    shown = sheet._repr_html_()
    assert "srcdoc=" in shown and "<script>" not in shown and "Save sheet.csv" in shown
    assert len(sheet) == 25 and type(sheet[["row", "answer"]].iloc[:3]) is pd.DataFrame
    assert (copy.path / "sheet.csv").read_text() == sheet.to_csv(index=False)


def test_answers_choose_by_what_they_say_in_several_rounds_however_they_are_written(
    copy: Audit, tmp_path: Path
) -> None:
    sheet = filled(copy)
    sheet["answer"] = [f"  {name.upper()} " for name in sheet["answer"]]
    sheet.loc[7:, "answer"] = ""
    sheet.to_csv(tmp_path / "some.csv", index=False)
    found = copy.answer(tmp_path / "some.csv").summary["new_rows"]
    assert (found["answers"], found["sheet_answers"], found["asked"]) == (7, 7, 20)
    copy.answer(filled(copy).iloc[::-1].reset_index(drop=True))  # as a frame, in another order
    again = copy.ask(30)
    assert len(again) == 30 and not set(again["row"]) & set(sheet["row"])
    again["answer"] = CHANGED["outcome"][again["row"]].to_numpy()
    copy.answer(again)
    new = copy.summary["new_rows"]
    rows = copy.new_rows
    assert (new["answers"], new["sheet_answers"], new["asked"]) == (50, 50, 50)
    assert sorted(rows["round"].value_counts().to_dict().items()) == [(-1, 250), (1, 20), (2, 30)]
    known = rows["label_number"] >= 0
    assert (np.array(NAMES)[rows["label_number"][known]] == CHANGED["outcome"][known.to_numpy()]).all()
    # The choice is right: no candidate gains clearly more on all rows, of which only a tester knows the labels.
    truth = np.array([NAMES.index(one) for one in CHANGED["outcome"]])
    true = (says(rows) == truth).mean(axis=1) - (says(rows)[0] == truth).mean()
    assert copy.verdict == "shortcut" and copy.views == ["column:scanner"]
    gain = (averaged(copy) == truth).mean() - (says(rows)[0] == truth).mean()
    assert gain > 0.05 and gain > true.max() - 0.05
    average = new["average"]
    assert average["gain_low"] - 0.05 < gain < average["gain_high"] + 0.05  # shrunk towards a small loss
    for kind, share in (
        ("accuracy", (averaged(copy) == truth).mean()),
        ("erm_accuracy", (says(rows)[0] == truth).mean()),
    ):
        assert average[kind]["low"] - 0.05 < share < average[kind]["high"] + 0.05
    assert sum(one["probability_best"] for one in new["candidates"]) == pytest.approx(1)
    assert "fix.yaml" in plain(copy) and "By 50 labelled new rows" in repr(copy)
    assert Audit(copy.path).summary == copy.summary  # sealed and whole


def averaged(found: Audit) -> np.ndarray:
    """What the average says of the new rows, by the weights that are written and the logits that are kept."""
    weight = np.array([one["weight"] for one in found.summary["new_rows"]["candidates"]])
    logits = np.load(found.path / "new_rows.npz")["logits"]
    return np.tensordot(weight, logits - logits.mean(axis=2, keepdims=True), axes=1).argmax(axis=1)


def test_the_average_that_is_advised_is_trained_and_predicts_what_the_audit_says(copy: Audit, tmp_path: Path) -> None:
    copy.answer(filled(copy))
    fix = yaml.safe_load((copy.path / "fix.yaml").read_text())
    weight = {one["name"]: one["weight"] for one in copy.summary["new_rows"]["candidates"] if one["weight"]}
    assert fix["method"]["name"] == "Average"
    assert {one["name"]: one["weight"] for one in fix["method"]["members"]} == pytest.approx(weight, abs=1e-3)
    with np.load(fix["method"]["answers"]) as answers:
        assert sorted(answers["label"]) == sorted(NAMES.index(name) for name in filled(copy)["answer"])
    run = copy.fix(tmp_path / "fixed")
    assert run.report.method == "Average"
    assert (run.predict(CHANGED) == CHANGED["outcome"]).mean() > 0.75
    plan = RunConfig.from_dict({**fix, "method": {**fix["method"], "answers": None}})
    untaught = train(plan, tmp_path / "untaught", page=False)
    assert (untaught.predict(CHANGED) == np.array(NAMES)[averaged(copy)]).all()
    assert (Audit(copy.path).fix().predict(CHANGED) == run.predict(CHANGED)).all()


def test_one_candidate_is_trained_and_does_not_see_the_column_if_it_is_left_out(copy: Audit, tmp_path: Path) -> None:
    copy.answer(filled(copy), single=True)
    new = copy.summary["new_rows"]
    assert not (copy.path / "answers.npz").exists()
    assert new["chosen"] == yaml_name(copy)
    assert {one["name"]: one["weight"] for one in new["candidates"] if one["weight"]} == {new["chosen"]: 1}
    assert new["gain"] == new["average"]["gain"] == max(one["gain"] for one in new["candidates"])
    run = copy.fix(tmp_path / "fixed")
    other = CHANGED.assign(scanner=np.where(CHANGED["scanner"] == "old", "new", "old"))
    before = run.predict_proba(CHANGED)
    after = run.predict_proba(other)
    assert (run.predict(CHANGED) == CHANGED["outcome"]).mean() > 0.75
    leaves_out = run.config.training.leave_out
    assert np.array_equal(before, after) == (leaves_out == ["column:scanner"])
    plan = copy.result.selection.candidates[2].config
    blind = train(RunConfig.from_dict(plan), tmp_path / "blind", page=False)
    assert np.array_equal(blind.predict_proba(CHANGED), blind.predict_proba(other))
    assert (blind.predict(CHANGED) == np.array(NAMES)[says(copy.new_rows)[2]]).all()  # what the audit asked


def test_inputs_that_are_too_large_to_keep_are_told_to_teach_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(new_rows, "MAX_INPUT_BYTES", 100)
    found = audit(OLD, tmp_path / "out", new_rows=CHANGED.drop(columns="outcome"), **SHORT)
    assert "learns no correction" not in repr(found)
    found.answer(filled(found))
    assert not found.summary["new_rows"]["learns_from_answers"] and not (found.path / "answers.npz").exists()
    assert "learns no correction from the answers, since the inputs" in repr(found)
    assert "learns no correction from the answers, since the inputs" in plain(found)
    assert "answers" not in yaml.safe_load((found.path / "fix.yaml").read_text())["method"]


def test_an_audit_of_others_is_told_to_teach_nothing(
    copy: Audit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy.answer(filled(copy))
    monkeypatch.setenv("LOGIT_CORRECTION_CACHE", str(tmp_path / "cache"))  # as on another computer
    other = Audit(copy.path)
    assert not other.trust_code
    with pytest.warns(InputWarning, match="learns no correction from the answers, since .* is not trusted"):
        config = other.to_train()
    assert not config.method.options.get("answers")


def yaml_name(found: Audit) -> str:
    """The candidate that fix.yaml trains."""
    fix = yaml.safe_load((found.path / "fix.yaml").read_text())
    return next(one["name"] for one in found.summary["new_rows"]["candidates"] if one["config"] == fix)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda sheet: sheet.assign(answer="sick"), r"'sick' is not a label.*the labels are ill, well"),
        (lambda sheet: sheet.assign(answer=""), "has no answer: fill in the column answer"),
        (lambda sheet: sheet.assign(row=10**6), "row 1000000 was not asked"),
        (lambda sheet: pd.DataFrame({"row": [*{*range(300)} - {*sheet["row"]}][:1], "answer": "ill"}), "was not asked"),
        (lambda sheet: sheet.assign(row=-1), "row -1 was not asked"),
        (lambda sheet: pd.concat([sheet, sheet[:1]]), "is there twice"),
        (lambda sheet: sheet.assign(content=sheet["content"].str.replace("scanner", "Scanner")), "of another audit"),
        (lambda sheet: sheet.assign(row=sheet["row"].to_numpy()[::-1]), "of another audit"),
        (lambda sheet: sheet.drop(columns="answer"), "answer"),
        (lambda sheet: sheet.drop(columns="row"), "row"),
    ],
)
def test_a_sheet_that_does_not_fit_is_refused_and_nothing_changes(
    change: Callable[[pd.DataFrame], pd.DataFrame], message: str, copy: Audit, tmp_path: Path
) -> None:
    change(filled(copy)).to_csv(tmp_path / "wrong.csv", index=False)
    before = {path.name: path.read_bytes() for path in copy.path.iterdir() if path.is_file()}
    for given in (tmp_path / "wrong.csv", change(filled(copy))):
        with pytest.raises(InputError, match=message):
            copy.answer(given)
    assert {path.name: path.read_bytes() for path in copy.path.iterdir() if path.is_file()} == before


def test_a_sheet_that_a_person_has_begun_is_never_written_over(copy: Audit) -> None:
    assert len(copy.ask(10)) == 20 and len(copy.ask(25)) == 25  # those that nobody has answered among them
    sheet = pd.read_csv(copy.path / "sheet.csv", dtype=object)
    sheet.loc[3, "answer"] = "ill"
    sheet.to_csv(copy.path / "sheet.csv", index=False)
    with pytest.raises(InputError, match=r"sheet.csv is filled in: read it first, by `answers="):
        copy.ask(5)
    assert pd.read_csv(copy.path / "sheet.csv")["answer"].notna().sum() == 1
    assert len(copy.answer(copy.path / "sheet.csv").ask(5)) == 24


def test_new_rows_like_those_of_training_are_corrected_by_nothing_and_labels_decide_at_once(tmp_path: Path) -> None:
    like = drawn(300, 2, 0.94)
    found = audit(OLD, tmp_path / "like", new_rows=like.drop(columns="outcome"), **SHORT)
    new = found.summary["new_rows"]
    assert not new["changed"] and new["chosen"] == "ERM" and new["asked"] == 0
    assert (found.verdict, found.views) == ("none found", []) and not (found.path / "sheet.csv").exists()
    assert "Train ERM: the new rows resemble the old ones." in plain(found) and "--method ERM" in plain(found)
    assert found.advised_config.method.name == "ERM"


def test_labels_of_new_rows_decide_at_once_where_some_have_one(tmp_path: Path) -> None:
    CHANGED.assign(outcome=CHANGED["outcome"].where(CHANGED.index % 2 == 0)).to_csv(tmp_path / "new.csv", index=False)
    found = audit(OLD, tmp_path / "some", new_rows=tmp_path / "new.csv", **SHORT)
    new = found.summary["new_rows"]
    rows = found.new_rows
    assert new["labelled"] == new["answers"] == 150 and new["asked"] == 0 and not (found.path / "sheet.csv").exists()
    assert rows["line"].tolist() == list(range(2, 302)) and (rows["label_number"][1::2] < 0).all()
    truth = np.array([NAMES.index(one) for one in CHANGED["outcome"]])
    assert (rows["label_number"][::2] == truth[::2]).all()
    assert found.verdict == "shortcut" and found.views == ["column:scanner"]
    members = yaml.safe_load((found.path / "fix.yaml").read_text())["method"]["members"]
    assert new["chosen"] in [member["name"] for member in members]


def test_what_is_wrong_with_new_rows_is_told_before_anything_is_trained_or_written(tmp_path: Path) -> None:
    sick = CHANGED.assign(outcome=np.where(CHANGED.index == 5, "sick", "ill"))
    sick.to_csv(tmp_path / "sick.csv", index=False)
    pd.concat([CHANGED, sick]).drop(columns="age").to_csv(tmp_path / "narrow.csv", index=False)
    for new, message in (
        (sick, r"1 has a label that is not .*'sick' of row 5: the labels are ill, well; leave unknown ones empty"),
        (tmp_path / "sick.csv", r"'sick' of line 7"),
        (pd.concat([sick] * 3), r"3 have labels that are not .*'sick' of row 5"),
        (tmp_path / "narrow.csv", "age"),
        (tmp_path / "none.csv", r"none\.csv"),
    ):
        with pytest.raises(InputError, match=message):
            audit(OLD, tmp_path / "out", new_rows=new, **SHORT)
        assert not (tmp_path / "out").exists()


def test_rows_of_the_split_new_are_new_rows_and_their_labels_are_not_read(tmp_path: Path) -> None:
    label = pd.Series(CHANGED["outcome"])
    forms = {
        "true": label,
        "dropped": np.where(CHANGED.index < 0, label, None),
    }
    said = {}
    folders = {}
    for name, given in forms.items():
        split = ["train", "train", "train", "valid", "test"] * (len(OLD) // 5)
        whole = pd.concat([OLD.assign(part=split), CHANGED.assign(part="new", outcome=given)], ignore_index=True)
        data = from_table(whole, label="outcome", split="part", folder=tmp_path / f"of-{name}")
        found = audit(data, epochs=3, threads=1)
        said[name] = says(found.new_rows)
        folders[name] = found
    assert (said["dropped"] == said["true"]).all()
    for key in ("evidence", "cost", "groups", "rows"):
        assert folders["dropped"].summary[key] == folders["true"].summary[key], key
    new = {name: one.summary["new_rows"] for name, one in folders.items()}
    assert new["dropped"]["labelled"] == 0 and new["dropped"]["asked"] == 20
    assert (
        new["true"]["labelled"] == 300 and new["true"]["changed"] and new["true"]["likely"] == new["dropped"]["likely"]
    )
    assert folders["true"].summary["data"]["rows"] == {"train": 360, "valid": 120, "test": 120, "new": 300}
    assert folders["true"].views == ["column:scanner"]


# -- images


def paint(file: Path, bright: bool, red: bool, draw: np.random.Generator) -> None:
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
            paint(file, bright, (draw.random() < bias) == bright, draw)
    for file in (folder / "new").glob("*/*"):
        (folder / "flat").mkdir(exist_ok=True)
        (folder / "flat" / file.name).write_bytes(file.read_bytes())
    return folder


def test_a_folder_of_new_images_may_have_a_folder_for_each_label(photos: Path, tmp_path: Path) -> None:
    found = audit(photos / "old", tmp_path / "out", new_rows=photos / "new", size=10, epochs=2, threads=1)
    true = [int(Path(path).stem) % 2 for path in found.new_rows["path"]]
    assert found.new_rows["label_number"].tolist() == true and found.summary["new_rows"]["labelled"] == 80


def test_a_folder_new_among_the_splits_is_of_new_rows(photos: Path, tmp_path: Path) -> None:
    for part, numbers in (("train", range(160)), ("valid", range(160, 200)), ("test", range(200, 240))):
        for number in numbers:
            name = f"{'dark' if number % 2 else 'bright'}/{number}.png"
            (tmp_path / "data" / part / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(photos / "old" / name, tmp_path / "data" / part / name)
    shutil.copytree(photos / "flat", tmp_path / "data" / "new")
    found = audit(tmp_path / "data", tmp_path / "out", size=10, epochs=2, threads=1, ask=6)
    new = found.summary["new_rows"]
    assert (new["rows"], new["labelled"]) == (80, 0) and found.summary["data"]["label_names"] == ["bright", "dark"]
    assert {Path(path).parent.name for path in found.new_rows["path"]} == {"new"}
    assert found.summary["data"]["rows"] == {"train": 160, "valid": 40, "test": 40, "new": 80}
    sheet = pd.read_csv(found.path / "sheet.csv")
    page = (found.path / "report.html").read_text()
    shown = page[page.index("Rows to label") : page.index("What might be trained")]
    assert list(sheet) == ["row", "path", "answer"] and shown.count('<img src="data:image/png') == len(sheet) > 0


def test_what_new_rows_cannot_go_with_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="ask is 0"):
        audit(OLD, tmp_path / "out", ask=0, new_rows=CHANGED, **SHORT)
    said = pd.DataFrame({"row": range(600), "probability_ill": 0.6, "probability_well": 0.4})
    said.to_csv(tmp_path / "said.csv", index=False)
    with pytest.raises(InputError, match="give one of the two"):
        audit(OLD, tmp_path / "out", new_rows=CHANGED, predictions=tmp_path / "said.csv", **SHORT)
    assert not (tmp_path / "out").exists()


def test_an_audit_without_new_rows_says_how_to_give_some(named: Audit) -> None:
    assert named.summary["new_rows"] is None
    for wanted in (lambda: named.new_rows, named.ask, lambda: named.answer(CHANGED)):
        with pytest.raises(InputError, match="audit again with `new_rows`"):
            wanted()


def test_folders_of_labels_are_checked_as_a_column_of_labels_is(photos: Path, tmp_path: Path) -> None:
    for names in (("Bright", "DARK"), ("bright", "Dark"), ("bright", "dim")):
        folder = tmp_path / "-".join(names)
        for name, of in zip(names, ("bright", "dark"), strict=True):
            shutil.copytree(photos / "new" / of, folder / name)
        wrong = next(name for name in names if name not in ("bright", "dark"))
        with pytest.raises(InputError, match=rf"not in the training data, such as '{wrong}'.*bright, dark"):
            audit(photos / "old", tmp_path / "out", new_rows=folder, size=10, epochs=2, threads=1)
        assert not (tmp_path / "out").exists()


def test_photos_beside_folders_of_labels_are_rows_without_a_label(photos: Path, tmp_path: Path) -> None:
    new = Path(shutil.copytree(photos / "new", tmp_path / "new"))
    loose = sorted(path.name for path in (new / "dark").iterdir())[:3]
    for name in loose:
        shutil.move(new / "dark" / name, new / name)
    with pytest.warns(InputWarning, match=rf"3 rows beside the folders of labels.*{loose[0]}"):
        found = audit(photos / "old", tmp_path / "out", new_rows=new, size=10, epochs=2, threads=1)
    rows = found.new_rows
    unknown = rows[rows["label_number"] < 0]
    assert len(rows) == 80 and sorted(Path(path).name for path in unknown["path"]) == loose
    assert found.summary["new_rows"]["labelled"] == 77


def test_new_rows_that_cannot_be_read_are_left_out_and_told_once(tmp_path: Path) -> None:
    new = CHANGED.drop(columns="outcome").astype({"age": object})
    new.loc[[2, 7], "age"] = "unknown?"
    new.to_csv(tmp_path / "new.csv", index=False)
    with pytest.warns(InputWarning) as told:
        found = audit(OLD, tmp_path / "out", new_rows=tmp_path / "new.csv", **SHORT)
    texts = [str(one.message) for one in told if "left out of the new rows" in str(one.message)]
    assert len(texts) == 1 and "2 rows" in texts[0] and "line 4" in texts[0] and "line 9" in texts[0]
    rows = found.new_rows
    assert rows["row"].tolist() == [row for row in range(300) if row not in (2, 7)]
    assert (rows["line"] == rows["row"] + 2).all()
    sheet = pd.read_csv(found.path / "sheet.csv", dtype={"answer": object})
    sheet["answer"] = CHANGED["outcome"].to_numpy()[sheet["row"]]
    found.answer(sheet)
    known = found.new_rows[found.new_rows["label_number"] >= 0]
    assert (np.array(NAMES)[known["label_number"]] == CHANGED["outcome"].to_numpy()[known["row"]]).all()


def test_a_sheet_that_a_spreadsheet_has_written_again_is_read(copy: Audit, tmp_path: Path) -> None:
    sheet = filled(copy)
    sheet["row"] = [f"{row}.0" for row in sheet["row"]]
    sheet.columns = ["Row", "content", " Answer"]
    sheet.to_csv(tmp_path / "again.csv", index=False)
    assert copy.answer(tmp_path / "again.csv").summary["new_rows"]["answers"] == 20
    sheet.assign(**{" Answer": "ill"}).to_csv(tmp_path / "unicode.csv", index=False, encoding="utf-16", sep="\t")
    assert (copy.answer(tmp_path / "unicode.csv").new_rows["label_number"] >= 0).sum() == 20
    for row in ("9" * 5000, "-1", "1.5"):
        with pytest.raises(InputError, match="was not asked"):
            copy.answer(pd.DataFrame({"row": [row], "answer": "ill"}))


def test_new_rows_that_are_not_there_or_are_the_data_are_told_before_anything_is_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "data.csv"
    OLD.to_csv(data, index=False)
    (tmp_path / "again.csv").symlink_to(data)
    words = ["--data", str(data), "--data.label", "outcome", "--epochs", "1", "--threads", "1"]
    for place, why in (
        ("nowhere.csv", "does not exist"),
        ("data.csv", "the data themselves"),
        ("again.csv", "the data"),
    ):
        for command in ("audit", "train"):
            new = str(tmp_path / place)
            assert main([command, *words, "--new-rows", new, "--out", str(tmp_path / "out")]) == 2
            shown = capsys.readouterr().err
            assert shown.count("\n") == 1 and place in shown and why in shown
    assert {path.name for path in tmp_path.iterdir()} == {"data.csv", "again.csv"}


def test_a_run_says_who_decided_what_the_shortcut_is(copy: Audit, tmp_path: Path) -> None:
    config = copy.result.selection.candidates[1].config  # LC by the column scanner, as answers choose it
    by_answers = train(RunConfig.from_dict(config), tmp_path / "answers", page=False)
    assert "You named" not in describe_finding(by_answers.report.finding) and "new rows" in describe_finding(
        by_answers.report.finding
    )
    named = train(OLD, tmp_path / "named", shortcut="column:scanner", page=False, **SHORT)
    assert "You named this shortcut" in describe_finding(named.report.finding)
