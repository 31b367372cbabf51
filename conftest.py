"""Which modules pytest does not look into for examples, those of packages that are not installed, and the encoders.

What a test trains must not depend on the extras that are installed, so none that is not asked for is taken.
"""

import os
from importlib.util import find_spec
from pathlib import Path

os.environ["LOGIT_CORRECTION_ENCODERS"] = "none"

FOLDER = Path(__file__).parent / "src/logit_correction/integrations"

collect_ignore = []
if find_spec("lightning") is None and find_spec("pytorch_lightning") is None:
    collect_ignore += [f"{FOLDER}/lightning.py"]
