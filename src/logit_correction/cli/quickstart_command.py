"""``logit-correction quickstart``: ERM and LC on the embedded digits, a table of both and one page."""

from __future__ import annotations

from pathlib import Path

from logit_correction.cli.arguments import Parser
from logit_correction.cli.stopping import stopped

#: What both methods are trained with.
EPOCHS, LEARNING_RATE, BATCH_SIZE = 60, 2e-3, 64


def main(arguments: list[str]) -> int:
    """Train both, print a table, write the page."""
    parser = Parser(
        "quickstart", "Train ERM and LC on the embedded digits (no download), print a table of both, write one page."
    )
    parser.add_argument("--out", type=Path, default=Path("quickstart"), help="folder to write (default: quickstart)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the data and of training (default: 0)")
    options = parser.parse_args(arguments)
    from logit_correction.errors import Interrupted
    from logit_correction.pages.console import show_runs
    from logit_correction.pages.page import write_page
    from logit_correction.runs.folder import PAGE

    try:
        folders = [_train(method, options.out, options.seed) for method in ("ERM", "LC")]
    except Interrupted:
        return stopped("quickstart", *arguments)
    page = options.out / PAGE
    write_page(folders, page)
    show_runs(folders, page)
    return 0


def _train(method: str, out: Path, seed: int) -> Path:
    """Train one method, or go on with it, and return the folder of the run."""
    from logit_correction.config import ComponentConfig, RunConfig, TrainingConfig
    from logit_correction.pages.console import announce
    from logit_correction.runs.train import train
    from logit_correction.training.display import choose_display

    training = TrainingConfig(
        epochs=EPOCHS,
        learning_rate=LEARNING_RATE,
        batch_size=BATCH_SIZE,
        seed=seed,
        device="cpu",
        threads=1,
        log_every=19,
    )
    config = RunConfig(ComponentConfig("Digits", {"seed": seed}), ComponentConfig(method), training=training)
    show = announce if method == "ERM" else None
    return train(config, out / method, resume=True, display=choose_display(), announce=show)
