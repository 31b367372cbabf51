"""The attribute labels of the training rows themselves: the oracle."""

from __future__ import annotations

from torch import Tensor

from logit_correction.attributes.base import UNKNOWN, AttributeEstimator
from logit_correction.correlation import Correlation
from logit_correction.errors import InputError
from logit_correction.types import DataInfo, TrainingRows


class TrueAttributes(AttributeEstimator):
    """Reads the attribute label of every training row, and says so in the report.

    A label's majority is what the data source's table says, and where there is none the commonest value of the label.

    >>> from logit_correction import TrueAttributes
    >>> TrueAttributes().needs_attributes
    True
    """

    needs_attributes = True

    def choose_correlation(self, info: DataInfo) -> Correlation:
        """Return the source's table; where there is none, one that serves until the rows are counted."""
        return info.correlation or Correlation([[1.0 / info.num_attributes] * info.num_attributes] * info.num_labels)

    @property
    def attribute_names(self) -> list[str]:
        """K names, those of the data."""
        return list(self.info.attribute_names)

    def setup(self, rows: TrainingRows) -> None:
        """Take in the labels and the attributes.

        Raises:
            InputError: If the attributes are not there.
        """
        super().setup(rows)
        if rows.attribute is None or bool((rows.attribute == UNKNOWN).any()):
            raise InputError("TrueAttributes needs the attribute of every training row: give TrainingRows.attribute")
        if self.info.correlation is None:
            sizes = self.info.num_labels, self.info.num_attributes
            self.correlation = Correlation.counted(rows.label, rows.attribute, *sizes)

    def estimate_rows(self, outputs: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Return the attributes."""
        assert self.rows.attribute is not None
        return self.rows.attribute, None

    def diagnose(self, batch: object) -> dict[str, Tensor]:
        """Return nothing: what is known needs no report."""
        return {}

    def describe(self) -> str:
        """Say where the attributes come from."""
        return "the attribute labels of the training rows"
