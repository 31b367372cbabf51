"""Whether a network can be told of the data, and whether what was built fits them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch

from logit_correction.data.table import DataTable
from logit_correction.errors import InputError, reason_of
from logit_correction.methods.base import Algorithm


def check_takes_info(name: str, network: Callable[..., Any]) -> None:
    """Return if a class or function can be told of the data by an argument ``info``.

    Raises:
        InputError: Otherwise.
    """
    parameters = inspect.signature(network).parameters
    if "info" not in parameters and not any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        raise InputError(
            f"network {name!r} takes no argument `info`: give a class or function of yours that does; it holds "
            "input_shape and num_labels"
        )


def check_fits(algorithm: Algorithm, table: DataTable, name: str) -> None:
    """Return if the method's networks turn the data's inputs into a logit per label, tried on two training rows.

    Raises:
        InputError: Otherwise; names the shapes.
    """
    rows = table.split["train"][:2]
    info = table.info
    shown = f"texts of {info.input_shape[0]} tokens" if info.tokens else f"inputs of shape {tuple(info.input_shape)}"
    algorithm.eval()
    try:
        with torch.no_grad():
            logits = algorithm.predict(table.inputs.fetch(rows))
    except InputError:
        raise
    except (RuntimeError, TypeError, AttributeError, ValueError, IndexError) as error:
        raise InputError(f"network {name} does not take {shown} ({reason_of(error)}): take another network") from error
    finally:
        algorithm.train()
    expected = (len(rows), info.num_labels)
    if tuple(getattr(logits, "shape", ())) != expected:
        raise InputError(
            f"network {name} gives logits of shape {tuple(getattr(logits, 'shape', ()))} for {len(rows)} rows, but "
            f"must give {expected}: one for each label"
        )
