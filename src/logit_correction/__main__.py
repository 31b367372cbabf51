"""``python -m logit_correction`` is the same as ``logit-correction``."""

from __future__ import annotations

import sys

from logit_correction.cli import main

sys.exit(main())
