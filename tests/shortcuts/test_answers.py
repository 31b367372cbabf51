"""Answers to an audit are written completely or not at all, and their order and rounds do not matter."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from logit_correction import Audit, InputError, audit, load
from logit_correction.cli import main

from ..forked_programs import ForkedProgram
from .conftest import SHIFTED_FRAME, SHORT, TRAINING_FRAME, fill_sheet, get_predictions

#: Ends a copy of the audit in ``sys.argv[1]`` at its first touch of a file, another some touches later, and so on.
KILL_AT_EACH_FILE_ACCESS = """
import os, shutil, signal, sys
from logit_correction import Audit

folder, what, how, step = sys.argv[1:]
number, status = -int(step), 1
while status:
    number += int(step)
    copy = f"{folder}-{number}"
    shutil.copytree(folder, copy)
    child = os.fork()
    if not child:
        left = number

        def watch(event, arguments):
            global left
            writes = event == "open" and isinstance(arguments[1], str) and set(arguments[1]) & set("wax+")
            if not (writes or event in ("os.rename", "os.remove", "os.mkdir", "os.rmdir")):
                return
            if not str(arguments[0]).startswith(copy):
                return
            left -= 1
            if left == -1:
                if how == "interrupted":
                    raise KeyboardInterrupt
                os.kill(os.getpid(), signal.SIGKILL)

        found = Audit(copy)
        sys.addaudithook(watch)
        try:
            found.answer(f"{folder}.csv") if what == "answer" else found.ask(30)
        except KeyboardInterrupt:
            os._exit(1)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
print(number, flush=True)
"""


@pytest.fixture
def copy(shifted_audit: Audit, tmp_path: Path) -> Audit:
    return Audit(shutil.copytree(shifted_audit.path, tmp_path / "copy"))


def read_audit_state(folder: Path) -> tuple[object, ...]:
    """The content of an audit, after a check of all files that have checksums."""
    read_audit = Audit(folder)
    assert len(read_audit.rows) > 0
    fix = folder / "fix.yaml"
    if fix.exists():
        assert (folder / "answers.npz").is_file()
    sheet = (folder / "sheet.csv").read_text()
    page = (folder / "report.html").read_text().replace(str(folder.name), "")
    plan = fix.read_text().replace(str(folder), "") if fix.exists() else None
    return read_audit.summary, read_audit.new_rows.to_csv(), plan, sheet, page


@pytest.mark.parametrize(
    ("command", "signal_kind", "step"),
    [
        ("answer", "killed", 6),
        pytest.param("answer", "killed", 1, marks=pytest.mark.slow),
        pytest.param("ask", "killed", 1, marks=pytest.mark.slow),
        pytest.param("answer", "interrupted", 1, marks=pytest.mark.slow),
    ],
)
def test_answer_and_ask_write_all_or_nothing_if_killed(
    command: str, signal_kind: str, step: int, copy: Audit, tmp_path: Path
) -> None:
    fill_sheet(copy).to_csv(tmp_path / "copy.csv", index=False)
    before = read_audit_state(copy.path)
    with ForkedProgram(KILL_AT_EACH_FILE_ACCESS, str(copy.path), command, signal_kind, str(step)) as process:
        assert process.wait() == 0, process.output
        last = int(process.output.split()[-1])
    folders = [tmp_path / f"copy-{number}" for number in range(0, last + 1, step)]
    after = read_audit_state(folders[-1])  # which was not interrupted
    states = [read_audit_state(folder) for folder in folders]
    assert last > 15 and before != after
    is_old_state = [state == before for state in states]
    assert all(state in (before, after) for state in states)
    assert (
        is_old_state == sorted(is_old_state, reverse=True) and is_old_state[0] and is_old_state.count(False) > 1
    )  # from one step on the new one
    for folder in (folders[1], folders[len(folders) // 2], folders[-2]):  # what was stopped can be done again
        if command == "answer":
            assert Audit(folder).answer(tmp_path / "copy.csv").summary == after[0]
            assert not [path for path in folder.iterdir() if path.is_dir()]
        else:
            assert len(Audit(folder).ask(30)) == 30


def test_answers_on_a_full_disk_leave_the_old_state(copy: Audit, tmp_path: Path) -> None:
    sheet = tmp_path / "filled.csv"
    fill_sheet(copy).to_csv(sheet, index=False)
    before = read_audit_state(copy.path)
    program = (
        "import resource, sys\n"
        "from logit_correction.cli import main\n"
        "sys.dont_write_bytecode = True\n"  # Python would not notice that the files of its cache are cut short
        "resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]),) * 2)\n"
        "sys.exit(main(sys.argv[2:]))\n"
    )
    words = ("audit", "--answers", str(sheet), "--out", str(copy.path))
    for size in (1_000, 5_000, 10_000):
        with ForkedProgram(program, str(size), *words) as process:
            assert process.wait() == 1, process.output
            assert f"{copy.path} cannot be written" in process.output and "make room" in process.output
        assert read_audit_state(copy.path) == before
    assert main([*words]) == 0 and read_audit_state(copy.path) != before


def test_killed_audit_can_be_started_again_in_its_folder(tmp_path: Path) -> None:
    TRAINING_FRAME.to_csv(tmp_path / "old.csv", index=False)
    words = ["audit", "--data", str(tmp_path / "old.csv"), "--data.label", "outcome", "--epochs", "2", "--threads", "1"]
    words += ["--try-fix", "false", "--out", str(tmp_path / "out")]
    program = (
        "import os, signal, sys\n"
        "from logit_correction.cli import main\n"
        "from logit_correction.shortcuts import rows\n"
        "rows.write_spreadsheet_csv = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        "main(sys.argv[1:])\n"
    )
    with ForkedProgram(program, *words) as process:
        assert process.wait() == -9, process.output
    assert len(list((tmp_path / "out").iterdir())) == 2  # its lock, and what was not complete
    assert main(words) == 0
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        *("audit.json", "config.yaml", "report.html", "rows.csv", "rows.parquet", ".checksums"),
    }


def test_two_audit_objects_of_one_folder_lose_no_answers(copy: Audit) -> None:
    sheet = fill_sheet(copy)
    other = Audit(copy.path)
    copy.answer(sheet[:10])
    other.answer(sheet[10:])
    assert other.summary["new_rows"]["answers"] == 20 == Audit(copy.path).summary["new_rows"]["answers"]
    assert copy.ask(5) is not None and len(Audit(copy.path).new_rows["round"].unique()) == 3
    program = (
        "import sys, time\n"
        "from pathlib import Path\n"
        "from logit_correction.runs.folder import lock_folder\n"
        "with lock_folder(Path(sys.argv[1])):\n"
        "    print('held', flush=True)\n"
        "    time.sleep(600)\n"
    )
    with ForkedProgram(program, str(copy.path)) as process:
        while "held" not in process.output:
            assert process.poll() is None, process.output
        with pytest.raises(InputError, match="in use by another process: wait for it"):
            other.answer(sheet)
    assert other.answer(sheet).summary["new_rows"]["answers"] == 20  # it is gone, and its lock with it


# -- what answers come to


def answer_in_rounds(original: Audit, folder: Path, count: int, rows: pd.DataFrame) -> Audit:
    """A copy of an audit in which all is answered that tells, so many rows a round."""
    copy = Audit(shutil.copytree(original.path, folder))
    sheet = fill_sheet(copy)
    while True:
        sheet["answer"] = rows["outcome"].to_numpy()[sheet["row"]]
        copy.answer(sheet)
        try:
            sheet = copy.ask(count)
        except InputError:  # no further answer can tell
            return copy


def test_gain_is_exact_for_any_rounds_once_all_disputed_rows_are_answered(shifted_audit: Audit, tmp_path: Path) -> None:
    truth = (SHIFTED_FRAME["outcome"] == "well").to_numpy().astype(int)
    right = get_predictions(shifted_audit.new_rows) == truth
    exact = right.mean(axis=1) - right[0].mean()
    chosen = set()
    for count in (25, 400):
        new = answer_in_rounds(shifted_audit, tmp_path / str(count), count, SHIFTED_FRAME).summary["new_rows"]
        gains = [candidate["gain"] for candidate in new["candidates"]]
        np.testing.assert_allclose(gains, exact, atol=1e-9)
        weight = [candidate["weight"] for candidate in new["candidates"]]
        with np.load(tmp_path / str(count) / "new_rows.npz") as values:
            centred = values["logits"] - values["logits"].mean(axis=2, keepdims=True)
        average = np.tensordot(weight, centred, axes=1).argmax(axis=1)
        assert new["gain"] == pytest.approx((average == truth).mean() - right[0].mean()) and new["more"] == 0
        chosen.add(new["chosen"])
    assert len(chosen) == 1


def test_gain_does_not_depend_on_the_order_of_rows_and_answers(shifted_audit: Audit, tmp_path: Path) -> None:
    order = np.random.default_rng(3).permutation(len(SHIFTED_FRAME))
    permuted_frame = SHIFTED_FRAME.iloc[order].reset_index(drop=True)
    new = permuted_frame.drop(columns="outcome")[["scanner", "blood", "age"]]
    other = audit(TRAINING_FRAME, tmp_path / "out", new_rows=new, **SHORT)
    first = Audit(shutil.copytree(shifted_audit.path, tmp_path / "copy"))
    contents = []
    for either_audit, rows in ((first, SHIFTED_FRAME), (other, permuted_frame)):
        sheet = pd.read_csv(either_audit.path / "sheet.csv", dtype={"answer": object})
        contents.append(sorted(sheet["content"]))
        sheet["answer"] = rows["outcome"].to_numpy()[sheet["row"]]
        for part in (sheet[::-2], sheet) if either_audit is other else (sheet,):
            either_audit.answer(part.reset_index(drop=True))
        second_sheet = either_audit.ask(15)
        contents.append(sorted(second_sheet["content"]))
        second_sheet["answer"] = rows["outcome"].to_numpy()[second_sheet["row"]]
        either_audit.answer(second_sheet)
    assert contents[:2] == contents[2:]
    assert first.summary["new_rows"]["chosen"] == other.summary["new_rows"]["chosen"]
    compared_keys = ("gain", "gain_low", "gain_high", "more", "likely")
    first_summary, second_summary = (
        {name: either_audit.summary["new_rows"][name] for name in compared_keys} for either_audit in (first, other)
    )
    assert first_summary == pytest.approx(second_summary, rel=1e-5)


def test_summary_has_no_gain_if_erm_is_chosen(copy: Audit) -> None:
    sheet = fill_sheet(copy)
    assert copy.answer(sheet).summary["new_rows"]["gain"] is not None
    as_erm = sheet.assign(answer=np.array(["ill", "well"])[get_predictions(copy.new_rows)[0]][sheet["row"]])
    copy.answer(as_erm, replace_answers=True)
    new = copy.summary["new_rows"]
    assert (new["chosen"], new["gain"], new["gain_low"], new["gain_high"]) == ("ERM", None, None, None)
    assert (copy.path / "answers.npz").exists()  # ERM learns from them too


def test_printed_command_trains_erm_where_it_is_advised(
    copy: Audit, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sheet = fill_sheet(copy)
    as_erm = sheet.assign(answer=np.array(["ill", "well"])[get_predictions(copy.new_rows)[0]][sheet["row"]])
    as_erm.to_csv(tmp_path / "sheet.csv", index=False)
    assert main(["audit", "--answers", str(tmp_path / "sheet.csv"), "--out", str(copy.path)]) == 0
    shown = capsys.readouterr().out
    words = re.search(r"logit-correction (train --config \S+fix.yaml) --out ordinary", shown)
    assert words, shown
    assert main([*words[1].split(), "--out", str(tmp_path / "ordinary")]) == 0
    run = load(tmp_path / "ordinary")
    assert run.report.display_name == "ERM with answers"
    assert [member["method"]["name"] for member in copy.advised_config.method.options["members"]] == ["ERM"]
    assert run.report.refit is not None and run.report.refit.rows == len(TRAINING_FRAME)
    kept = copy.fix(refit=False)
    assert kept.report.refit is None and kept.report.test.average == run.report.test.average


def test_fix_is_mostly_erm_where_no_correction_is_clearly_better(
    copy: Audit, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sheet = fill_sheet(copy)
    predictions = get_predictions(copy.new_rows)[:, sheet["row"]]
    label = predictions[0].copy()
    contradicted = np.flatnonzero(predictions[2] != predictions[0])
    label[contradicted[::2]] = 1 - label[contradicted[::2]]
    sheet.assign(answer=np.array(["ill", "well"])[label]).to_csv(tmp_path / "sheet.csv", index=False)
    assert main(["audit", "--answers", str(tmp_path / "sheet.csv"), "--out", str(copy.path)]) == 0
    shown = capsys.readouterr().out
    assert "mostly ERM" in shown and re.search(r"logit-correction train --config \S+fix.yaml --out fixed", shown)
    answered = Audit(copy.path)
    selection = answered.result.selection
    assert selection is not None and selection.average is not None and selection.average.is_unsure
    members = {result.name: result.weight for result in selection.members}
    assert members["ERM"] == max(members.values()) and len(members) > 1
    assert (answered.verdict, selection.chosen) == ("none found", "ERM")
    trained = {member["name"]: member["weight"] for member in answered.advised_config.method.options["members"]}
    assert trained == pytest.approx(members, abs=1e-4)


def test_sheet_that_contradicts_earlier_answers_replaces_them_only_if_told_to(
    copy: Audit, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sheet = fill_sheet(copy)
    copy.answer(sheet)
    before = read_audit_state(copy.path)
    changed_mind = sheet.assign(answer=sheet["answer"].mask(sheet.index < 2, None)).copy()
    changed_mind.loc[2:3, "answer"] = changed_mind.loc[2:3, "answer"].map({"ill": "well", "well": "ill"})
    changed_mind.to_csv(tmp_path / "sheet.csv", index=False)
    words = ["audit", "--answers", str(tmp_path / "sheet.csv"), "--out", str(copy.path)]
    assert main(words) == 2
    message = capsys.readouterr().err
    assert all(f"row {row} was" in message for row in sheet["row"][2:4]) and "--replace-answers" in message
    assert message.count(" was ") == 2 and read_audit_state(copy.path) == before
    assert main([*words, "--replace-answers"]) == 0
    labels = Audit(copy.path).new_rows.set_index("row")["label_number"]
    assert labels[sheet["row"]].tolist() == [
        ["ill", "well"].index(answer) for answer in changed_mind["answer"].fillna(sheet["answer"])
    ]


def test_audit_without_disputed_rows_advises_erm_and_asks_for_no_labels(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Another country makes the candidates less sure; the measure still tells each label."""
    draw = np.random.default_rng(0)
    label = np.arange(240) % 2
    frame = pd.DataFrame({"x": (8.0 * label - 4 + draw.normal(0, 0.3, 240)).round(3)})
    frame["country"] = np.where(draw.random(240) < 0.95, np.array(["fr", "de"])[label], "fr")
    frame.assign(label=np.array(["no", "yes"])[label]).to_csv(tmp_path / "old.csv", index=False)
    swapped_frame = frame.assign(country=np.array(["de", "fr"])[label])
    swapped_frame.to_csv(tmp_path / "new.csv", index=False)
    words = ["audit", "--data", str(tmp_path / "old.csv"), "--data.label", "label", "--threads", "1", "--epochs", "20"]
    words += ["--new-rows", str(tmp_path / "new.csv"), "--ask", "6", "--out", str(tmp_path / "out")]
    words += ["--legitimate", "column:x", "--shortcut", "column:country"]
    assert main(words) == 0
    country_audit = Audit(tmp_path / "out")
    new = country_audit.summary["new_rows"]
    assert new["changed"] and new["more"] == 0 and new["chosen"] == "ERM" and country_audit.verdict == "none found"
    output = capsys.readouterr().out
    assert (
        "fix.yaml --out ordinary" in output
        and "--ask" not in output
        and not (country_audit.path / "sheet.csv").exists()
    )
    assert "--ask" not in (country_audit.path / "report.html").read_text()
    with pytest.raises(InputError, match=r"all candidates agree.*Train what the audit advises"):
        country_audit.ask(20)


# -- photos


def test_answers_need_no_photo_and_a_new_sheet_names_a_damaged_one(
    tmp_path: Path,
) -> None:
    draw = np.random.default_rng(0)
    for place, rows, bias in (("old", 160, 0.95), ("new", 60, 0.2)):
        for number in range(rows):
            bright = number % 2 == 0
            pixels = draw.normal(90, 30, (10, 10, 3))
            pixels[3:7, 3:7] += 60 if bright else 0
            pixels[..., 0 if (draw.random() < bias) == bright else 2] += 40
            folder = tmp_path / place / (("bright" if bright else "dark") if place == "old" else ".")
            folder.mkdir(parents=True, exist_ok=True)
            Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(folder / f"{number}.png")
    photo_audit = audit(
        tmp_path / "old", tmp_path / "out", new_rows=tmp_path / "new", size=10, epochs=2, threads=1, ask=6
    )
    sheet = pd.read_csv(photo_audit.path / "sheet.csv", dtype={"answer": object})
    to_label = '<li><img src="data:image/png'
    pictures = (photo_audit.path / "report.html").read_text().count(to_label)
    sheet.loc[0, "answer"] = "dark"
    sheet.to_csv(tmp_path / "sheet.csv", index=False)
    for path in (tmp_path / "new").iterdir():  # all of them
        path.write_bytes(b"no image")
    words = ("audit", "--answers", str(tmp_path / "sheet.csv"), "--out", str(photo_audit.path))
    assert main([*words]) == 0
    assert Audit(photo_audit.path).summary["new_rows"]["answers"] == 1
    page = (photo_audit.path / "report.html").read_text()
    assert page.count(to_label) == pictures - 1  # of rows that are open
    before = {path.name: path.read_bytes() for path in photo_audit.path.iterdir()}
    with pytest.raises(InputError, match=r"new/\d+\.png cannot be read as an image"):
        Audit(photo_audit.path).ask(12)
    assert {path.name: path.read_bytes() for path in photo_audit.path.iterdir()} == before
