"""Every figure that a page of an audit says in a sentence or a table, computed anew from the files beside the page."""

from __future__ import annotations

import html
import re
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from scipy.stats import binomtest

from logit_correction import Audit, audit
from logit_correction.files import read_cells

from .conftest import CHANGED, filled


def text_of(found: Audit) -> str:
    """The words of a page, without its marks."""
    page = (found.path / "report.html").read_text(encoding="utf-8")
    page = re.sub(r"<(style|title)>.*?</\1>", "", page, flags=re.DOTALL)
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page)).replace("\u00a0", " ").split())


def tables_of(found: Audit) -> dict[str, list[list[str]]]:
    """The tables of a page by what they are called, cell by cell."""
    page = (found.path / "report.html").read_text(encoding="utf-8").replace("\u00a0", " ")
    tables = {}
    for name, body in re.findall(r'aria-label="([^"]*)"><table.*?>(.*?)</table>', page, re.DOTALL):
        rows = [
            re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL)
            for row in re.findall(r"<tr.*?</tr>", body, re.DOTALL)
        ]
        plain = [[" ".join(html.unescape(re.sub(r"<[^>]+>", " ", cell)).split()) for cell in row] for row in rows]
        tables[name] = plain[1:] if "<thead>" in body else plain
    return tables


def rows_of(found: Audit) -> pd.DataFrame:
    """``rows.csv`` as another program reads it."""
    return read_cells(pd.read_csv(found.path / "rows.csv", dtype={"attribute": object, "label": object}))


def figure(right: pd.Series) -> str:
    """A share in per cent with Wilson's interval of 90 %, as the page has it."""
    low, high = binomtest(int(right.sum()), len(right)).proportion_ci(0.9, "wilson")
    return f"{100 * right.mean():.0f} {100 * low:.0f}–{100 * high:.0f}"


def check_price(found: Audit, rows: pd.DataFrame, who: tuple[str, ...]) -> None:
    price = {line[0]: line[1:] for line in tables_of(found)["Accuracy on held-out training rows"]}
    judged = rows[rows["conflicting"].notna() & rows["network_label"].notna()]
    conflicting = judged["conflicting"].astype(bool)
    right = {one: (judged[f"{one}_label"] == judged["label"]) for one in who}
    assert price["Data like your training data"] == [figure(one) for one in right.values()]
    assert price[f"{conflicting.sum():,} bias-conflicting rows"] == [figure(one[conflicting]) for one in right.values()]
    assert price[f"{(~conflicting).sum():,} bias-aligned rows"] == [figure(one[~conflicting]) for one in right.values()]
    share = 1 / rows["label"].nunique()  # of a data set in which look and label are independent, so many rows agree
    for told, one in zip(price["Balanced: shortcut and label independent"], right.values(), strict=True):
        balanced = share * one[~conflicting].mean() + (1 - share) * one[conflicting].mean()
        assert int(told.split()[0]) == pytest.approx(100 * balanced, abs=0.51)


def check_rows(found: Audit, rows: pd.DataFrame, view: str, several: bool) -> None:
    """The sentence of the verdict, and the tables of the conflicting rows."""
    text, train = text_of(found), rows[rows["split"] == "train"]
    judged = rows[rows["network_label"].notna()]
    alone, whole = ((judged[name] == judged["label"]).mean() for name in ("view_label", "network_label"))
    assert f"alone {'predict' if several else 'predicts'} {100 * alone:.0f} % of the held-out labels" in text
    most = judged["label"].value_counts(normalize=True).max()
    assert f"the whole network {100 * whole:.0f} %, the commonest label {100 * most:.0f} %" in text
    sure = judged[judged["sure"].eq(True)]
    follows = [(sure["network_label"] == sure[name]).sum() for name in ("view_label", "label")]
    they, them, point = ("they", "them", "point") if several else ("it", "it", "points")
    where = f"On the {len(sure)} rows where {they} clearly {point} to another label, ERM follows"
    assert f"{where} {them} in {follows[0]} and the label in {follows[1]}" in text
    conflicting = train[train["conflicting"].eq(True)]
    assert (conflicting["label"] != conflicting["attribute"]).all()
    assert f"{len(conflicting)} of {len(train)} training rows are estimated to be bias-conflicting" in text
    cells = conflicting.groupby(["label", "attribute"])
    told = {(line[0], line[1]): line[2:] for line in tables_of(found)["Labels that look like another"]}
    assert {key: int(line[0]) for key, line in told.items()} == cells.size().to_dict()
    for key, own in cells:
        known = own[own["network_label"].notna()]
        assert told[key][1] == f"{100 * (known['network_label'] == known['label']).mean():.0f}"
    first = conflicting.sort_values("score", ascending=False, kind="stable")["score"][:60]
    assert [float(line[3]) for line in tables_of(found)["Bias-conflicting rows"]] == first.round(2).tolist()


def test_a_table_with_lc_tried(named: Audit) -> None:
    rows, text = rows_of(named), text_of(named)
    check_price(named, rows, ("network", "fixed"))
    check_rows(named, rows, "the column scanner", several=False)
    assert f"check the {rows['label_noise'].eq(True).sum()} row" in text or not rows["label_noise"].eq(True).any()
    data = pd.read_csv(named.path.parent / "rows.csv").iloc[rows["row"]]
    for value, label, own, others in tables_of(named)["What predicts the label"]:
        counts = data["label"][data["scanner"] == value].value_counts()
        assert (label, int(own), int(others)) == (counts.index[0], counts.iloc[0], counts.iloc[1:].sum())
    valid, share = named.summary["data"]["rows"]["valid"], rows["sure"].eq(True).sum() / rows["sure"].notna().sum()
    assert f"and you have about {share * valid:.0f}" in text


def test_photos(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    for number in range(300):
        upright = number % 2 == 1
        red = upright == (draw.random() < 0.88)
        pixels = draw.normal(90, 30, (10, 10, 3))
        pixels[(slice(None), slice(4, 6)) if upright else slice(4, 6)] += 60
        pixels[..., 0 if red else 2] += 40
        file = tmp_path / "photos" / ("bar" if upright else "line") / f"{number}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(file)
    options = {"size": 10, "epochs": 2, "threads": 1, "try_fix": False}
    found = audit(tmp_path / "photos", tmp_path / "out", shortcut="colour", **options)  # type: ignore[arg-type]
    rows = rows_of(found)
    check_price(found, rows, ("network",))
    check_rows(found, rows, "colour", several=False)
    page = (found.path / "report.html").read_text()
    shown = {row["label"]: row for row in found.summary["contrasts"][0]["rows"]}
    for label, own in rows[rows["conflicting"].eq(True)].groupby("label"):
        assert [one["looks_like"] for one in shown[label]["conflict"]] == own["attribute"][:6].tolist()
    assert page.count("<img ") == sum(len(row[kind]) for row in shown.values() for kind in ("agree", "conflict"))


def test_new_rows_and_answers(changed: Audit, tmp_path: Path) -> None:
    found = Audit(shutil.copytree(changed.path, tmp_path / "copy"))
    found.answer(filled(found))
    rows, text, told = pd.read_parquet(found.path / "new_rows.parquet"), text_of(found), found.summary["new_rows"]
    names = [one["name"] for one in told["candidates"]]
    says = rows[[f"says_{number}" for number in range(len(names))]].to_numpy().T
    truth = np.where(CHANGED["outcome"] == "ill", 0, 1)
    known = np.flatnonzero(rows["round"] == 1)
    assert (rows["label_number"][known] == truth[known]).all() and (rows["label_number"].drop(known) == -1).all()
    assert (told["answers"], told["asked"]) == (len(known), len(known)) and f"By {len(known)} labelled new rows" in text
    table = {line[0]: line[1:] for line in tables_of(found)["Candidates"]}
    weight = 1 / rows["chance_1"].to_numpy()[known]
    gains = [0.0]
    for number, name in enumerate(names[1:], 1):
        differs = says[number] != says[0]
        assert table[name][0] == f"{100 * differs.mean():.0f}"
        ends = [told["candidates"][number][f"differs_new_{end}"] for end in ("low", "high")]
        assert ends == pytest.approx([*binomtest(int(differs.sum()), 300).proportion_ci(0.9, "wilson")])
        # Where both say the same nothing is gained; where they differ, what the answers say, and four rows of -0.05.
        own = weight * differs[known]
        better = (says[number][known] == truth[known]).astype(float) - (says[0][known] == truth[known])
        worth = own.sum() ** 2 / max((own**2).sum(), 1e-12)
        mean = (own * better).sum() / max(own.sum(), 1e-12)
        gains.append(differs.mean() * (worth * mean - 4 * 0.05) / (worth + 4))
        assert table[name][3].split()[0] == f"{100 * gains[-1]:+.0f}"
        low, high = (int(end) for end in re.findall(r"[+-]\d+", table[name][3])[1:])
        assert low < 100 * gains[-1] < high
    best = int(np.argmax(gains))
    assert told["chosen"] == names[best] and f"Train {names[best].replace('`', '')}" in text.replace(" : ", ": ")
    share, usual = (int(table[names[best]][place]) for place in (0, 1))
    assert f"disagree on {share} % of the 300 rows that are new, and on {usual} % of rows like the training" in text
    assert "points on the new rows" in text and told["gain"] <= gains[best]
    erm, lc = (table[names[number]][2] for number in (0, best))
    assert f"accuracy goes from {erm} % to {lc} %" in text or f"accuracy stays at {lc} %" in text
