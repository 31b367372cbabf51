"""``python -m logit_correction`` is the same as ``logit-correction``."""

from __future__ import annotations

import signal
import sys

from logit_correction.cli import main


def run() -> int:
    """Run a command and return its exit status; SIGINT and SIGTERM stop it with status 130 until its work is done."""
    signals = (signal.SIGINT, signal.SIGTERM)
    try:
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        return main()
    except KeyboardInterrupt:
        return 130
    finally:
        for number in signals:
            signal.signal(number, signal.SIG_IGN)  # torch takes most of a second to be torn down


if __name__ == "__main__":
    sys.exit(run())
