"""Which modules pytest does not look into for examples: those of packages that are not installed."""

from importlib.util import find_spec
from pathlib import Path

FOLDER = Path(__file__).parent / "src/logit_correction/integrations"

collect_ignore = []
if find_spec("lightning") is None and find_spec("pytorch_lightning") is None:
    collect_ignore += [f"{FOLDER}/lightning.py"]
if find_spec("torchmetrics") is None:
    collect_ignore += [f"{FOLDER}/metrics.py"]
