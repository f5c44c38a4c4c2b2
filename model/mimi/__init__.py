"""Mimi, the streaming codec between PCM and codes."""

from model.mimi.codec import Mimi, MimiState, StreamingMimi
from model.mimi.quantizer import Codebook, Quantized

__all__ = ["Codebook", "Mimi", "MimiState", "Quantized", "StreamingMimi"]
