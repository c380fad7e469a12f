"""Roofline model: how close ops and kernels come to the peak rates of the device."""

from stepscope.analysis.options import RooflineModelOptions as Options
from stepscope.analysis.roofline_model.model import NEEDS, RooflineModelResult, analyse

__all__ = ["NEEDS", "Options", "RooflineModelResult", "analyse"]
