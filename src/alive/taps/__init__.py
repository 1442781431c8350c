"""Taps on the pre-activations of any module."""

from .models import bare, without_activations
from .taps import Call, Tap, Taps, Watcher, watchers

__all__ = ["Call", "Tap", "Taps", "Watcher", "bare", "watchers", "without_activations"]
