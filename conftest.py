"""Which modules pytest does not look into for examples: those of extras that are not installed."""

from importlib.util import find_spec

FOLDER = "src/logit_correction/integrations"

collect_ignore = []
if find_spec("lightning") is None and find_spec("pytorch_lightning") is None:
    collect_ignore += [f"{FOLDER}/lightning{part}.py" for part in ("", "_callback", "_judging", "_module")]
if find_spec("torchmetrics") is None:
    collect_ignore += [f"{FOLDER}/metrics.py"]
