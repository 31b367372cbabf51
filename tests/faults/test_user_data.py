"""Data as users have them are trained on and predicted, or refused by a message that names the error."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import os
import re
import shutil
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from logit_correction import InputError, audit, from_table, train

DataCase = dict[str, Any]
CommandRunner = Callable[..., Any]

later = ("ignore::DeprecationWarning", "ignore::PendingDeprecationWarning", "ignore::ResourceWarning")
chance = "ignore:invalid value encountered in matmul:RuntimeWarning"  # of BLAS, over finite numbers
pytestmark = pytest.mark.filterwarnings("error", *later, chance, "always::logit_correction.errors.InputWarning")


@st.composite
def draw_case(draw: st.DrawFn, kinds: Sequence[Any], odd: Mapping[str, Sequence[Any]]) -> DataCase:
    """A case of one or two kinds of values, as usual (the first values of ``odd``) in all but at most two things."""
    case: DataCase = {name: values[0] for name, values in odd.items()}
    case["kinds"] = draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=2))
    case |= {"seed": draw(st.integers(0, 999)), "on_bad_rows": draw(st.sampled_from(["error", "skip"]))}
    for name in draw(st.lists(st.sampled_from([*odd]), max_size=2)):
        case[name] = draw(st.sampled_from(odd[name]))
    return case


def run_on_cases(share: float, kinds: Sequence[Any], **odd: Sequence[Any]) -> Callable[[Any], Any]:
    """Run a test on its share of all cases: of 2,000, or of the number in the environment variable ``FUZZ``."""
    number = max(1, round(share * int(os.environ.get("FUZZ", "2000"))))
    return lambda test: settings(max_examples=number)(given(case=draw_case(kinds, odd))(test))


def empty_folder(folder: Path) -> Path:
    shutil.rmtree(folder)
    folder.mkdir()
    return folder


def get_reference_name(label: Any) -> str | None:
    """The name of a label by an independent implementation, None for a missing one."""
    if np.ndim(label) == 0 and pd.isna(label):
        return None
    label = label.decode("utf-8", "backslashreplace") if isinstance(label, bytes) else label
    text = str(int(label) if isinstance(label, float | np.floating) and label.is_integer() else label)
    text = unicodedata.normalize("NFC", text.encode("utf-8", "backslashreplace").decode())
    return re.sub("[\u00ad\u200b\u200e\u200f\u202a-\u202e\u2060\ufe0e\ufe0f\ufeff]", "", text).strip() or None


def check_message(message: str, names: Sequence[Any]) -> None:
    """Fail unless a message names a file, a column, an option or what else was given, in the words of a user."""
    assert not re.search(r"Traceback|<class|--debug|\b[A-Z]\w*(Error|Exception|Warning)\b| at 0x|NoneType", message)
    assert any(str(name) in message for name in (*names, "--data", "_fraction", "label=")), message
    assert len(message) < 5000, message


def check_counts(data_summary: Mapping[str, Any], warnings: str, labels: Sequence[Any]) -> bool:
    """Fail unless rows and labels of a report are those that were given; return whether rows were left out."""
    match = re.search(r"([\d,]+) rows? (?:is|are) bad and left out", warnings)
    bad = int(match[1].replace(",", "")) if match else 0
    assert sum(data_summary["rows"].values()) + bad == len(labels), warnings
    assert bad or {*map(get_reference_name, labels)} == {*data_summary["label_names"]}
    return bad > 0


def reorder(rows: Any, order: Sequence[int]) -> Any:
    """Return rows in another order, and their columns too."""
    if isinstance(rows, pd.DataFrame):
        return rows.iloc[order, ::-1]
    if isinstance(rows, Mapping):
        return {name: [values[row] for row in order] for name, values in reversed(rows.items())}
    return rows[order] if isinstance(rows, np.ndarray) else [rows[row] for row in order]


def check_files(
    run_command: CommandRunner,
    case: DataCase,
    place: Path,
    options: DataCase,
    labels: Any,
    names: list[Any],
    write: Any,
    data: Any = None,
) -> None:
    """Check the commands: they read and answer all rows, in any order of ``write``, and count right."""
    run = place / "run"
    out = place / "answers.csv"
    in_order = range(len(labels))
    files = write(in_order)
    words = [data or files[0], *(f"--data.{name}={value}" for name, value in options.items())]
    training_options = ["--method", case["method"], "--epochs", 1, "--threads", 1, "--device", "cpu", "--out", run]

    def run_and_check(*words: object) -> Any:
        answer = run_command(*words)
        assert answer.status in (0, 2), answer
        check_message(answer.err.partition("error: ")[2], names) if answer.status else None
        return answer

    def predict_files(files: Sequence[Path]) -> tuple[list[str], np.ndarray]:
        assert run_and_check("predict", run, *files, "--out", out).status == 0 or bad
        if not out.exists():
            return [], np.zeros(0)
        answer_table = pd.read_csv(out, dtype=str, keep_default_na=False)
        labels_read = answer_table.iloc[:, 1].str.replace(
            r"^'(?=[=+\-@\t\r])", "", regex=True
        )  # the quote makes it no formula
        return labels_read.tolist(), answer_table.iloc[:, 2:].replace("", "nan").to_numpy(np.float64)

    previewed = run_and_check("preview", "--data", *words)
    trained = run_and_check("train", "--data", *words, *training_options)
    if trained.status:
        assert not run.exists()
        return
    assert previewed.status == 0, previewed.err
    assert not re.search("<u>|<script>x", (run / "report.html").read_text("utf-8"))
    bad = check_counts(json.loads((run / "report.json").read_text("utf-8"))["data"], previewed.err, labels)
    predicted, chances = predict_files(files)
    if predicted or not bad:
        assert len(predicted) == len(labels) and (bad or all(predicted))
        order = Random(0).sample(in_order, len(labels))
        assert np.allclose(predict_files(write(order))[1], chances[order], atol=1e-4, equal_nan=True)
    if not (bad or data):
        right = [answer == get_reference_name(label) for answer, label in zip(predicted, labels, strict=True)]
        metrics = json.loads(run_and_check("evaluate", run, "--on", files[0], "--json").out)
        assert metrics["average"] == pytest.approx(np.mean(right))


def check_python(case: DataCase, rows: Any, labels: Any, names: list[Any], table: DataCase | None = None) -> None:
    """Check the same of a run that Python trains: of a table with these options, or of rows and labels."""
    training_options = {"method": case["method"], "epochs": 1, "threads": 1, "device": "cpu", "page": False}
    trained = bad = False
    try:
        run = (
            train(rows, label=labels, **training_options)
            if table is None
            else train(from_table(rows, **table), **training_options)
        )
        trained = True
        bad = check_counts(run.report.to_dict()["data"], " ".join(run.report.warnings), labels)
        predicted = run.predict(rows)
    except InputError as error:
        assert bad or not trained, error
        check_message(str(error), names)
        return
    order = Random(0).sample(range(len(labels)), len(labels))
    assert len(predicted) == len(labels) and {*map(get_reference_name, predicted.tolist())} <= {
        *map(get_reference_name, labels)
    }
    assert np.allclose(run.predict_proba(reorder(rows, order)), run.predict_proba(rows)[order], atol=1e-4)


# -- what people have in their tables: values, of more than 120 each once, and their type

WORDS = [(values, object) for values in [
    ["good", "bad", "film", "the", "a"], [*"好坏电影的一"], ["😀", "👨‍👩‍👧", "❤️"], ["one"], ["שלום", "\u202eabc"],
    [" "], ["https://x.org/a?b=c", "http://[bad"], ["<u>a</u>", "<script>x</script>", "a & b"], ["!!!", "...", "—"],
    ["é", "e\u0301", "e"], ["\x01", "\x1b[31m", "\x85", "\u2028"], ["a\u200b", "a", "\ufeffb"], ["f(x):", "=1", "@x"],
    ["a,b", "a;b", "a\tb", 'a"b', "a\nb"], ["a" * 5000, "b" * 5000], ["a", "A", "\uff21", " a "], ["yes", "no", ""],
]]  # fmt: skip
CELLS = [*WORDS, *((values, object) for values in [
    [""], ["True", "False"], ["1.5", "2", "", "NA", "?"], ["007", "1.", ".5"], ["1", "2", "3", "inf", ">10"],
    ["1.5 kg", "20 %"], ["0x1", "٣"], ["2024-01-31", "2024-02-01"], ["2024-02-27", "2024-02-28", "2024-02-31"],
    ["31.12.2024"], ["04/28/2024", "08/11/2024"], ["08/11/2024", "11/08/2024"], ["28/04/2024", "04/28/2024"],
    ["4/28/2024 2:30 PM", "12/1/2024 12:05 AM"], ["2024/1/5", "2024/12/31"], ["2024-01-31", "9999-12-31", "2024-02-01"],
    ["1", "1.0", "01", "2"], ["TRUE", "FALSE"],
    ["31.12.2024 14.30", "1.2.2024 9.05"], ["12/31/24", "02/01/24"],
    ["1.0", "2.0", ""], ["y", "a", "1"], ["2024-01-31T10:00+02:00", "2024-01-31"],
    ["0001-01-01", "9999-12-31"], ["09:30", "23:59"],
    ["1e300", "9" * 400], ["1e-310", "0"], [str(2**63), "1"], ["1,5", "2,25"], ["1,234.5", "2,000"], ["train", "test"],
    [*map(str, range(200))], [f"id {number}" for number in range(200)], [*map(str, range(1, 121)), ">10"],
])]  # fmt: skip

DAYS = [dt.date(2024, 1, day) for day in range(1, 29)]
SPANS = [dt.timedelta(hours=hours) for hours in range(9)]
TIMES = [dt.datetime(2024, 1, day, 9, 30) for day in range(1, 29)]
NUMBERS = [number / 7 for number in range(200)]
TEXT = pa.string()
INT = pa.int64()
FLOAT = pa.float64()
FRAME = [
    (["good", "bad"], object), *WORDS, ([1, 2, pd.NA], "Int64"), ([True, False, pd.NA], "boolean"), ([None], object),
    (["a", "b", pd.NA], "string"), (["a", 1, 2.5, None], object), ([1, 2.5, Decimal("1.5"), True], object),
    ([1j, 2], complex), (["a", "b", None], "category"), ([1, 2], "category"), (TIMES[:3], "category"), (DAYS, object),
    ([1.5, 2, None], "category"), ([True, False], "category"), ([True, False, None], "category"),
    ([pd.Timestamp(time, tz="Asia/Tokyo") for time in TIMES[:3]], "category"), (SPANS[:3], "category"),
    ([pd.Timestamp(TIMES[0], tz="UTC"), TIMES[1]], object), ([Decimal("1.50"), Decimal("2")], "category"),
    ([3, 1, 2], pd.CategoricalDtype([3, 2, 1], ordered=True)),
    (pd.Categorical([1, "a", 2.5]), "category"), ([*pd.period_range("2024-01", periods=3, freq="M")], "category"),
    ([*pd.interval_range(0, 3)], "category"), (["half \ud83d", "a"], object),
    ([np.datetime64("NaT"), TIMES[0]], object), ([None, 7], float),
    ([1, 2, None], pd.ArrowDtype(pa.dictionary(pa.int8(), INT))), ([float("nan"), "a", "b"], object),
    ([pd.Timestamp(time, tz="Europe/Paris") for time in TIMES], None),
    ([TIMES[0], pd.NaT], None), ([pd.Period("2024-01"), pd.Period("2024-02")], None), ([True, 1, 0], object),
    ([pd.Interval(0, 1), pd.Interval(1, 2)], None), (SPANS, "timedelta64[s]"), ([0, 1], "Sparse[int]"),
    ([(1,), (2, 3)], object), ([{"a": 1}, {}], object), ([np.zeros(2)], object), ([np.array(0.5), np.array(1)], object),
    ([b"a", b"\xff"], object), ([2**64 - 1, 3], "uint64"), ([2**70, 1], object), ([1, 2], np.longdouble),
    (["\udce9", "a"], object), (["a\0b", "a"], object), *((values, pd.ArrowDtype(of)) for values, of in [
        (["good", None], TEXT), (NUMBERS, FLOAT), (range(200), INT), (DAYS, pa.date32()), ([None], FLOAT),
        (TIMES, pa.timestamp("us", "Asia/Tokyo")), (TIMES, pa.timestamp("ns", "+05:30")), (SPANS, pa.duration("us")),
        ([dt.datetime(1, 1, 1), TIMES[0]], pa.timestamp("us")), (["a", "b", None], pa.dictionary(pa.int8(), TEXT)),
        ([dt.time(9), dt.time(17)], pa.time64("us")), (TIMES, pa.timestamp("s")), ([[1], [2, 3]], pa.list_(INT)),
        ([Decimal("1.50"), Decimal("2.25"), None], pa.decimal128(12, 2)), ([[("k", 1)]], pa.map_(TEXT, INT)),
        ([Decimal(10) ** 60, Decimal(1)], pa.decimal256(70, 2)), ([b"ab", b"cd"], pa.binary(2)), ([None], pa.null()),
        ([{"a": 1}, {"a": 2}], pa.struct({"a": INT})), ([b"a", b"\xff"], pa.binary()), ([1.5, 2], pa.float16()),
        ([2**64 - 1, 3], pa.uint64()), ([-1, 1, None], pa.int8()), ([2**62 + 1, 2**62], INT), ([1, np.inf], FLOAT),
        ([0.1, 0.2], pa.float32()), ([1e300, -1e300], FLOAT), ([True, False, None], pa.bool_()),
    ]),
]  # fmt: skip

NAMES = ["b c", "x,y", 'q"q', "new\nline", "col:on", "<u>", "gro\u0308ße ", "日本", "😀", "-dash", "=1+1", "a.b", "#",
         "{a}", "%s", "path", "line", "Unnamed: 0", "*", "a hour", "1", "1.0", "None", "(missing)", "column:a", "split",
         "Y", "\u202eabc", "n" * 300, "label", "text", "index", "a\u200b"]  # fmt: skip
LABELS = [("yes", "no"), ("0", "1"), ("-1", "1"), ("0.5", "1.5"), ("0.0", "1.0"), ("a", "b", ""), ("NA", "ok"), ("",),
          ("nan", "None"), ("é", "e\u0301", "x"), ("Yes", "yes"), ("a\u200b", "a", "b"), ("\uff21", "A"), ("=1", "@x"),
          ("<script>x", "<u>"), ("a,b", 'c"d'), ("a\nb", "c"), ("007", "7"), ("1", "1.0", "2"), ("one",), ("--x", "#"),
          ("שלום", "😀"), ("[red]a", "[/]"), ("a" * 2000, "b"), ("1e5", "inf"), range(10), NUMBERS[:121]]  # fmt: skip
OPTIONS = [{}, {"decimal": ","}, {"thousands": ","}, {"dayfirst": True}, {"valid_fraction": 0.3}, {"test_fraction": 0}]
COLUMN = ("text", "features", "categorical", "numbers", "attribute", "split", "split_by")
OPTIONS += [{option: "COLUMN"} for option in COLUMN]  # of a case
TABLE = {"name": ["a", *NAMES], "label": ["y", *NAMES], "option": OPTIONS, "rare": [False, True]}
COMMON = {"rows": [30, 1, 2, 3, 6, 12, 41, 120], "method": ["ERM", "LC"]}


def make_frame(case: DataCase, labels: Sequence[Any], of: Any = object) -> tuple[pd.DataFrame, DataCase]:
    """Return the table of a case, its columns in any order, and its options."""
    rng = Random(case["seed"])
    rows = case["rows"]
    columns = {"z": pd.Series(rng.sample(NUMBERS, rows))}
    for name, (values, type_) in zip((case["name"], "x"), case["kinds"], strict=False):
        cells = rng.sample(values, rows) if len(values) > 120 else rng.choices(values, k=rows)
        columns[name] = pd.Series(cells, dtype=type_)
    in_turn = [labels[-1 if case["rare"] and row else row % len(labels)] for row in range(rows)]
    columns[case["label"]] = pd.Series(in_turn, dtype=of)
    option = {name: case["name"] if value == "COLUMN" else value for name, value in case["option"].items()}
    options = {"label": case["label"], "on_bad_rows": case["on_bad_rows"], **option}
    return pd.DataFrame({name: columns[name] for name in rng.sample([*columns], len(columns))}), options


FILE_FORMS = {"plainly": bytes, "without end": bytes.rstrip, "blank lines": lambda text: text.replace(b"\n", b"\n\n"),
           "mark": lambda text: b"\xef\xbb\xbf" + text, "DOS": lambda text: text.replace(b"\n", b"\r\n"),
           "utf-16": lambda text: text.decode().encode("utf-16"),
           "utf-32": lambda text: text.decode().encode("utf-32")}  # fmt: skip
DAMAGED_FORMS = {"zero": lambda text: text[:9] + b"\0" + text[9:], "long row": lambda text: text + b"1,2,3,4,5,6\n",
           "quote": lambda text: text + b'"', "comment": lambda text: b"# mine\n" + text, "nothing": lambda text: b"",
           "utf-16": lambda text: text.decode().encode("utf-16-be"), "latin": lambda text: b"\xe4" + text,
           "header again": lambda text: text + text.replace(b" ", b""), "joined": lambda text: text.rstrip() + text,
           "quotes": lambda text: text[:40] + b'"' + text[40:-9] + b'"' + text[-9:]}  # fmt: skip


@run_on_cases(
    0.28, CELLS, **TABLE, **COMMON, labels=LABELS, sep=",;\t|", written=[*FILE_FORMS, *DAMAGED_FORMS], quoting=[0, 1]
)
def test_any_csv_is_trained_on_or_refused(case: DataCase, run_command: CommandRunner, tmp_path: Path) -> None:
    place = empty_folder(tmp_path)
    frame, options = make_frame(case, case["labels"])
    file = place / "rows.csv"
    names = ["rows.csv", *map(repr, frame)]

    def write(order: Sequence[int]) -> list[Path]:
        layout = {"index": False, "sep": case["sep"], "quoting": case["quoting"], "lineterminator": "\n"}
        text = reorder(frame, order).to_csv(**layout).encode()
        file.write_bytes({**FILE_FORMS, **DAMAGED_FORMS}[case["written"]](text))
        return [file]

    if case["written"] in FILE_FORMS:
        check_files(run_command, case, place, options, frame[case["label"]].tolist(), names, write)
    else:
        answer = run_command("preview", "--data", *write(range(len(frame))), f"--data.label={case['label']}")
        assert answer.status in (0, 2), answer
        check_message(answer.err, names) if answer.status else None


@run_on_cases(0.12, FRAME, **TABLE, **COMMON, labels=FRAME, compression=["snappy", "zstd", "gzip"])
def test_any_parquet_is_trained_on_or_refused(case: DataCase, run_command: CommandRunner, tmp_path: Path) -> None:
    place = empty_folder(tmp_path)
    frame, options = make_frame(case, *case["labels"])

    def write(order: Sequence[int]) -> list[Path]:
        with contextlib.suppress(Exception):  # a frame that cannot be written gives a missing file
            reorder(frame, order).to_parquet(place / "rows.parquet", compression=case["compression"])
        return [place / "rows.parquet"]

    check_files(
        run_command, case, place, options, frame[case["label"]].tolist(), ["rows.parquet", *map(repr, frame)], write
    )


INDEX = [range, lambda rows: pd.Index(range(rows), name="site"), lambda rows: pd.Index(range(rows), name="z"),
         lambda rows: pd.MultiIndex.from_product([["a"], range(rows)], names=["place", None])]  # fmt: skip
WAYS = ["frame", "list", "series", "records", "numbered", "labels apart", "list of labels"]


@run_on_cases(0.25, FRAME, **TABLE, **COMMON, labels=FRAME, index=INDEX, way=WAYS)
def test_any_frame_is_trained_on_or_refused(case: DataCase) -> None:
    way = case["way"]
    rows, options = make_frame(case, *case["labels"])
    labels = rows[case["label"]]
    names = map(repr, map(str, rows))
    rows = rows.set_axis(case["index"](len(rows)))
    if way in ("labels apart", "list of labels"):
        rows = rows.drop(columns=case["label"])
        options = None
    elif way in ("list", "series", "records"):
        rows = rows.to_dict(way)
    elif way == "numbered":
        options["label"] = str(rows.columns.get_loc(case["label"]))
        rows = rows.set_axis(range(rows.shape[1]), axis=1)
    check_python(case, rows, labels if way == "labels apart" else labels.tolist(), ["the table", *names], options)


BEFORE = ["", "so " * 50, "so " * 800]
LENGTHS = [6, 0, 1, 2, 100]
GAPS = ["film", "", " \n", None]


@run_on_cases(0.1, WORDS, **COMMON, labels=LABELS, length=LENGTHS, before=BEFORE, first=GAPS)
def test_any_texts_are_trained_on_or_refused(case: DataCase) -> None:
    rng = Random(case["seed"])
    words = [word for values, _ in case["kinds"] for word in values]
    texts = [case["before"] + " ".join(rng.choices(words, k=case["length"])) for _ in range(case["rows"])]
    texts[0] = case["first"]
    labels = [case["labels"][row % len(case["labels"])] for row in range(len(texts))]
    check_python(case, texts, labels, ["the table", "the new texts", "row 0", "rows given in Python"])


GREY = Image.linear_gradient("L")
WHITE = Image.new("RGB", (9, 9), "white")
BROKEN = {"not": Path.exists, "cut": lambda file: file.write_bytes(file.read_bytes()[: file.stat().st_size // 2]),
          "text": lambda file: file.write_text("<html>404"), "script": lambda file: file.write_text("%!PS\nshowpage"),
          "queue": lambda file: (file.unlink(), os.mkfifo(file)), "empty": lambda file: file.write_bytes(b""),
          "moving": lambda file: GREY.save(file, "GIF", save_all=True, append_images=[GREY.rotate(90)]),
          "lost": lambda file: (file.unlink(), file.symlink_to("no.png")),
          "drive": lambda file: (file.parent / "@eaDir" / file.name).mkdir(parents=True, exist_ok=True),
          "mac": lambda file: (file.parent / f"._{file.name}"[:99]).write_bytes(b"\0\5\x16\7"),
          "snapshot": lambda file: (file.parent / "#snapshot" / file.name).mkdir(parents=True, exist_ok=True),
          "loose": lambda file: GREY.save(next(one for one in file.parents if one.name == "photos") / "loose.png"),
          "exif": lambda file: GREY.save(file, "PNG", exif=b"junk of a camera"),
          "one colour": lambda file: WHITE.save(file),
          "12 bits": lambda file: Image.fromarray(16 * np.asarray(GREY, np.uint16)).save(file, "PNG")}  # fmt: skip
FOLDERS = [("a", "b"), ("with space", "per%cent"), ("-dash", "--b"), ("e\u0301", "x"), ("é", "e\u0301"), ("Cat", "cat"),
           ("new", "b"), ("train", "b"), ("train", "test"), ("日本", "😀"), ("<u>", "<script>x<"), ("=1", "*"),
           ("a.png", "b"), ("a\u200b", "a", "b"), ("caf\udce9", "b"), ("[red]", "$HOME"), ("n" * 200, "b")]  # fmt: skip
FILES = ["{}", "an image {}", "100%{}%s", "a\n{}", "-{}", "e\u0301{}", "caf\udce9{}", "n" * 180 + "{}", "a,{}", 'a"{}']
MODES = ["RGB", "L", "LA", "P", "RGBA", "CMYK", "1", "I", "I;16", "F", "HSV"]
SPLITS = ["train", "valid", "test"]
ENDS = ["png", "jpg", "bmp", "gif", "tif", "webp", "PNG"]
PLACES = ["{label}", "{split}/{label}", "{label}/deep"]


@run_on_cases(0.14, MODES, labels=FOLDERS, each=[8, 1, 2, 3, 20], file=FILES, broken=[*BROKEN], all=[False, True],
       end=ENDS, side=[9, 1, 50, 70], layout=PLACES, table=[False, True], method=["ERM", "LC"])  # fmt: skip
def test_any_image_folder_is_trained_on_or_refused(case: DataCase, run_command: CommandRunner, tmp_path: Path) -> None:
    place = empty_folder(tmp_path)
    pixels = np.random.default_rng(case["seed"])
    files = list[Path]()
    labels = [label for _ in range(case["each"]) for label in case["labels"]]
    for number, label in enumerate(labels):
        home = place / "photos" / case["layout"].format(label=label, split=SPLITS[number // len(case["labels"]) % 3])
        files.append(home / f"{case['file'].format(number)}.{case['end']}")
        home.mkdir(parents=True, exist_ok=True)
        image = Image.fromarray(pixels.integers(0, 256, (case["side"], 8 + number % 2, 3), np.uint8))
        try:
            image.convert(case["kinds"][number % len(case["kinds"])]).save(files[-1])
        except (OSError, KeyError, ValueError):  # the format does not support these pixels
            image.save(files[-1])
        BROKEN[case["broken"]](files[-1]) if case["all"] or number < 2 else None
    data = place / "photos"
    options = {"on_bad_rows": case["on_bad_rows"]}
    if case["table"]:
        data = place / "photos.csv"
        options = options | {"path": "path", "label": "y"}
        table = pd.DataFrame({"path": [file.relative_to(place) for file in files], "y": labels})
        table.to_csv(data, index=False, errors="surrogateescape")
    names = ["photos", "images"]

    def take_files(order: Sequence[int]) -> list[object]:
        return [files[row] for row in order]

    check_files(run_command, case, place, options, labels, names, take_files, data)


SHAPES = [(4,), (1,), (0,), (300,), (2, 2), (3, 8, 8), (8, 8, 3), (1, 8, 8), (4, 8, 8), (1, 1, 1), (), (2, 3, 4, 5)]
TYPES = ["f8", "f2", "f4", "i1", "u1", "i8", "u8", "u2", "?", "g", "c8", "O", "U", "S3"]
VALUES = [
    [0, 1],
    ["a", "b"],
    [True, False],
    [0.5, 1.5],
    [-1, 1],
    [None, 1, 2],
    [np.nan, 0, 1],
    ["a", np.nan, "b"],
    ["half \ud83d", "a"],
    [*TIMES[:2], pd.NaT],
    ["é", "e\u0301"],
    [0],
]
FIRST = [0.5, np.nan, np.inf, -1, 1e300]
SCALES = [1, 0, 9, 1e9]


@run_on_cases(0.09, SHAPES, **COMMON, type=TYPES, first=FIRST, scale=SCALES, labels=VALUES, way=["array", "list"])
def test_any_arrays_are_trained_on_or_refused(case: DataCase) -> None:
    values = np.random.default_rng(case["seed"]).random((case["rows"], *case["kinds"][0])) * case["scale"]
    values.flat[:1] = case["first"]
    with np.errstate(all="ignore"):
        values = values.astype(case["type"])
    labels = [case["labels"][row % len(case["labels"])] for row in range(case["rows"])]
    rows = values.tolist() if case["way"] == "list" else values
    check_python(case, rows, labels, ["the arrays", "inputs", "images", "arrays given in Python"])


@run_on_cases(0.02, FRAME, **TABLE, **COMMON, labels=LABELS)
def test_any_table_is_audited_or_refused(case: DataCase) -> None:
    frame, options = make_frame(case, case["labels"])
    try:
        table_audit = audit(from_table(frame, **options), epochs=1, threads=1, device="cpu")
        assert not re.search("<u>|<script>x", (table_audit.path / "report.html").read_text("utf-8"))
    except InputError as error:
        check_message(str(error), ["the table", *map(repr, frame)])
