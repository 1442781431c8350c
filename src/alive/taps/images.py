"""Images: what calls of torch make of a row of numbers, which tells what function of one number they are.

They are shared by all passes and models, so that a call that was met before costs a look into a table.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor

from ..functional.forms import GRID, Form, form_of
from .pointwise import BOUNDS, EMPTY

MOST = 1 << 14  # images that are kept

Straight = tuple[float, float]  # a and b, of a function a z + b
Quiet = Callable[[], AbstractContextManager[None]]  # inside, nothing is followed


class Image:
    """A function of one number: a call of torch, on other images and on constants."""

    __slots__ = ("args", "capped", "depth", "forms", "func", "kwargs", "straight", "values")

    def __init__(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.func, self.args, self.kwargs = func, args, kwargs
        self.depth: int = 1 + max((a.depth for a in (*args, *kwargs.values()) if isinstance(a, Image)), default=0)
        self.capped: bool = func in BOUNDS or any(
            a.capped for a in (*args, *kwargs.values()) if isinstance(a, Image)
        )  # whether it holds a bound, behind which values may tell more
        self.values: Tensor = GRID if func is None else self._call(lambda image: image.values)
        self.straight = _straight(self.values)
        self.forms: dict[Straight, Form | None] = {}

    def at(self, x: Tensor, known: dict[Image, Tensor] | None = None) -> Tensor:
        """Its values at other numbers."""
        known = {} if known is None else known
        if self not in known:
            known[self] = x if self.func is None else self._call(lambda image: image.at(x, known))
        return known[self]

    def _call(self, of: Callable[[Image], Tensor]) -> Tensor:
        def own(a: Any) -> Any:  # for the call may change what it gets
            return of(a).clone() if isinstance(a, Image) else a

        args, kwargs = [own(a) for a in self.args], {k: own(a) for k, a in self.kwargs.items()}
        out: Tensor | None = self.func(*args, **kwargs)
        return args[0] if out is None else out

    def is_even(self, quiet: Quiet) -> bool:
        """Whether it is the same, and curved, on both sides of 0."""
        with quiet(), torch.no_grad():
            return bool((self.values - self.at(-GRID)).abs().max() < 1e-6)

    def form(self, straight: Straight, quiet: Quiet) -> Form | None:
        """Which activation it is of a z + b."""
        if straight not in self.forms:
            a, b = straight
            with quiet(), torch.no_grad():
                self.forms[straight] = form_of(lambda c: self.at((c - b) / a))
        return self.forms[straight]


def _straight(values: Tensor) -> Straight | None:
    if values.shape != GRID.shape or not values.is_floating_point() or not bool(values.isfinite().all()):
        return None
    a = float((values[-1] - values[0]) / (GRID[-1] - GRID[0]))
    b = float(values[-1] - a * GRID[-1])
    a, b = (float(f"{n:.9g}") if abs(n) > 1e-12 else 0.0 for n in (a, b))
    near = bool((values - a * GRID - b).abs().max() <= 1e-6 * (abs(a) + abs(b) + 1e-3))
    return (a, b) if near else None


ROOT = Image(None, (), {})
ZERO = Image(torch.zeros_like, (ROOT,), {})
_images: dict[Any, Image | None] = {}


def cast(image: Image, dtype: torch.dtype, quiet: Quiet) -> Image | None:
    """An image with its numbers in another type."""
    return image if image.values.dtype == dtype else image_of(Tensor.to, (image, dtype), {}, quiet)


def image_of(
    func: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    quiet: Quiet,
) -> Image | None:
    """The image of a call, made once; None if the call cannot be made of numbers."""
    key = (func, tuple(map(_key, args)), tuple((k, _key(a)) for k, a in kwargs.items()))
    try:
        return _images[key]
    except KeyError:
        pass
    except TypeError:  # an argument that is no key
        return None
    if len(_images) > MOST:
        _images.clear()
    try:
        with quiet(), torch.no_grad():
            image = Image(_unset if func in EMPTY else func, args, kwargs)
    except Exception:
        image = None
    if image is not None and (not isinstance(image.values, Tensor) or image.values.ndim != 1):
        image = None
    _images[key] = image
    return image


def _unset(t: Tensor, **_: Any) -> Tensor:
    """Numbers that were not set yet."""
    return torch.full_like(t, torch.nan, dtype=torch.float64)


def _key(a: Any) -> Any:
    if isinstance(a, Tensor):
        return "tensor", tuple(a.shape), float(a.flatten()[0]), a.dtype
    return a if isinstance(a, Image) else (type(a), a)
