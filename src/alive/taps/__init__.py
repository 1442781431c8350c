"""Taps on the pre-activations of any module."""

from .taps import Call, Tap, Taps, Watcher, bare, watchers, without_activations

__all__ = ["Call", "Tap", "Taps", "Watcher", "bare", "watchers", "without_activations"]
