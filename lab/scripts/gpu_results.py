"""What ``gpu.py`` measures, in files that are complete after each result."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path
from typing import Any

from logit_correction.files import replacing, write_text
from logit_correction_lab.grid import Benchmark
from logit_correction_lab.tables import finished, markdown, results

#: The row that the others are compared with.
ERM = "ERM"


class Results:
    """What has been measured, one line of JSON each; a call of other settings is refused."""

    def __init__(self, out: Path, settings: dict[str, Any]) -> None:
        out.mkdir(parents=True, exist_ok=True)
        self.out, self.file = out, out / "results.jsonl"
        lines = self.file.read_text(encoding="utf-8").splitlines() if self.file.is_file() else []
        self.lines: list[dict[str, Any]] = [json.loads(line) for line in lines]
        if not self.lines:
            self.add(part="settings", name="", **settings)
        known = {name: self.lines[0].get(name) for name in settings}
        if known != settings:
            raise SystemExit(f"error: {self.file} is of other settings ({known}): give another --out")

    def has(self, part: str, name: str) -> bool:
        """Whether a result is there; what failed is tried again."""
        return any((line["part"], line["name"]) == (part, name) and "error" not in line for line in self.lines)

    def failed(self) -> bool:
        """Whether something has no result but an error."""
        return any(not self.has(line["part"], line["name"]) for line in self.lines if "error" in line)

    def add(self, **line: Any) -> None:
        """Write a result, and the page anew."""
        line |= {"time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "commit": commit()}
        others = [one for one in self.lines if (one["part"], one["name"]) != (line["part"], line["name"])]
        self.lines = [*others, line]
        write_text(self.file, "".join(json.dumps(one) + "\n" for one in self.lines))
        write_text(self.out / "results.md", self.page())
        print(json.dumps({key: value for key, value in line.items() if key != "table"}), flush=True)

    def measure(self, part: str, name: str, work: Any) -> None:
        """Do some work, unless its result is there; an error is a result too."""
        if not self.has(part, name):
            try:
                found = work()
            except Exception as error:  # the other parts shall go on
                found = {"error": f"{type(error).__name__}: {error}"}
            self.add(part=part, name=name, **found)

    def page(self) -> str:
        """Return all of it as Markdown."""
        first, *rest = self.lines
        latest = {(line["part"], line["name"]): line for line in rest}
        text = [f"Device: {first['device']}; torch {first['torch']}; commit {rest[-1]['commit'] if rest else ''}."]
        text += [f"Pixels: {line['source']}." for line in rest if line["part"] == "data"][-1:]
        text += ["", "| a step of | waits for the device |", "|---|---|"]
        for (part, name), line in latest.items():
            if part == "syncs":
                places = line.get("error") or line.get("skipped") or "; ".join(line["waits"]) or "nowhere"
                text.append(f"| {name} | {places} |")
        columns = "ms a step | (least, most) | seconds an epoch | / two of ERM | images a second | peak MiB"
        text += ["", f"| | arithmetic | {columns} |", "|" + "---|" * 8]
        hundred: dict[str, str] = {}
        for (part, name), line in latest.items():
            row, _, mode = name.partition("; ")
            floor = 2 * latest.get((part, f"{ERM}; {mode}"), {}).get("epoch_seconds", float("nan"))
            if part == "steps" and "error" not in line:
                text.append(
                    f"| {row} | {mode} | {line['ms']:.2f} | ({line['least']:.2f}, {line['most']:.2f}) | "
                    f"{line['epoch_seconds']:.2f} | {line['epoch_seconds'] / floor:.2f} | "
                    f"{line['images_per_second']:,.0f} | {line.get('peak_mib', 0):,.0f} |"
                )
            elif part == "steps":
                text.append(f"| {row} | {mode} | {line['error'].splitlines()[0][:200]} |" + " |" * 5)
            if part == "steps" and row == ERM and "error" not in line:
                hundred[mode] = f"{mode} {100 * line['epoch_seconds']:.0f} s"
        text += ["", f"100 epochs of ERM: {', '.join(hundred.values())}."] if hundred else []
        grid = latest.get(("grid", "")) or latest.get(("grid", "so far"))
        if grid:
            spent = ", ".join(f"{row} {seconds:.0f} s" for row, seconds in grid["seconds"].items())
            text += [
                "",
                f"{grid['finished']} runs, {first['jobs']} at a time, seconds of training in the median: {spent}.",
                grid["table"],
            ]
        return "\n".join(text) + "\n"

    def add_grid(self, grid: Benchmark, runs: Path, name: str, started: float) -> None:
        """Write the figures of the runs that are finished."""
        frame = results(grid, runs)
        with replacing(self.out / "grid.csv") as temporary:
            frame.to_csv(temporary, index=False)
        own = frame[frame["selection"] == "last"].groupby("row", sort=False) if len(frame) else None
        self.add(
            part="grid",
            name=name,
            finished=len(finished(grid, runs)),
            call_seconds=time.monotonic() - started,
            seconds={} if own is None else own["train_seconds"].median().to_dict(),
            table=markdown(grid, frame) if len(frame) else "no run is finished",
        )


def commit() -> str:
    """The commit that is checked out here."""
    words = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD"]
    return subprocess.run(words, capture_output=True, text=True, check=False).stdout.strip()
