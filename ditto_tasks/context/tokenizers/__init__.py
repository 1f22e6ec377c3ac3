"""Calibrated token estimators, in the place of the default four bytes a token."""

from ditto_tasks.context.tokenizers.correction import Correction
from ditto_tasks.context.tokenizers.estimators import ModelEstimator

__all__ = ["Correction", "ModelEstimator"]
