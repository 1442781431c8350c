"""Layouts by sizes alone, for passes that cannot be followed: inside torch.compile and torch.func.

The last weighted operation tells on which axis its units are, and how many. If nothing was moved since, they
are still there; if exactly one axis has that size, it is that one; otherwise the layout is unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from ..provenance import Grid, Layout
from ..torch_private import in_backward, is_faked, is_proxy_tracing, is_torch_function_off, is_transformed
from .trace import words

WHY = "the pass could not be followed, and sizes do not tell; run the model once as it is, before compiling it"

_STAYS = words(
    "add sub mul div add_ sub_ mul_ div_ relu relu_ sigmoid tanh exp abs sqrt __add__ __radd__ __sub__ __mul__ "
    "__rmul__ __truediv__ square softmax clamp dropout batch_norm layer_norm group_norm instance_norm rms_norm "
    "contiguous clone detach to float half bfloat16 double type_as size dim numel is_floating_point __get__"
)


def follows() -> bool:
    """Whether a pass that begins now can be followed operation by operation."""
    if torch.compiler.is_compiling() or torch.jit.is_tracing():  # type: ignore[attr-defined]
        return False
    if in_backward() or is_transformed():
        return False
    return not (is_proxy_tracing() or is_faked() or is_torch_function_off())


def rows_of(inputs: tuple[tuple[Any, ...], Mapping[str, Any]], point_axis: int | None) -> int:
    """How many points the first tensor of a call has; 0 where that cannot be said."""
    args, kwargs = inputs
    for x in (*args, *kwargs.values()):
        if isinstance(x, Tensor):
            return x.shape[point_axis] if point_axis is not None and -x.ndim <= point_axis < x.ndim else 0
    return 0


class Sizes:
    """What the functions called so far tell."""

    def __init__(self) -> None:
        self._axis = self._size = self._ndim = 0
        self._still = False  # whether nothing was moved since
        self._always = True  # nor ever before

    def made(self, func: Any, out: Any, axis: int) -> Any:
        """A weighted operation ran."""
        first = out[0] if isinstance(out, tuple | list) else out
        if isinstance(first, Tensor) and first.ndim:
            axis = axis if first.ndim > 1 else 0
            if axis == 1 and func in UNBATCHED and first.ndim == UNBATCHED[func]:
                axis = 0
            self._axis, self._size, self._ndim, self._still = axis % first.ndim, first.shape[axis], first.ndim, True
        return out

    def moved(self, func: Any) -> None:
        """Some other function ran."""
        if self._always or self._still:
            stays = getattr(func, "__name__", "") in _STAYS
            self._still, self._always = self._still and stays, self._always and stays

    def layout(self, z: Tensor, points: int, point_axis: int | None) -> Layout:
        """Where points and units of z lie, as far as sizes tell."""
        units = self._units(z)
        rows = self._rows(z, points, point_axis, units)
        why = tuple(f"{what}: {WHY}" for what, axis in (("points", rows), ("units", units)) if axis is None)
        place = Grid(
            z.ndim,
            () if rows is None else (rows,),
            () if units is None else (units,),
            1 if units is None else z.shape[units],
        )
        axes = place.axes if rows is not None and units is not None else None
        return Layout(place, rows is not None, units is not None, why, fixed=False, axes=axes)

    def of_output(self, y: Tensor, points: int, point_axis: int | None) -> Layout:
        """Where points and units of a model's output lie: units last, or second in a map."""
        self._axis, self._ndim, self._still = (y.ndim - 1 if y.ndim < 4 else 1), y.ndim, True
        return self.layout(y, points, point_axis)

    def _units(self, z: Tensor) -> int | None:
        if not self._ndim:
            return 1 if z.ndim == 2 else None
        if self._still and z.ndim == self._ndim:
            return self._axis
        fit = [d for d in range(z.ndim) if z.shape[d] == self._size]
        return fit[0] if len(fit) == 1 else None

    def _rows(self, z: Tensor, points: int, point_axis: int | None, units: int | None) -> int | None:
        if point_axis is None or not -z.ndim <= point_axis < z.ndim:
            return None
        axis = point_axis % z.ndim
        if axis == units:
            return None
        if self._always and z.ndim == self._ndim:  # else sizes are compared, which binds a compiled batch size
            return axis
        return axis if z.shape[axis] == points and sum(n == points for n in z.shape) == 1 else None


UNBATCHED = {
    torch.conv1d: 2,
    torch.conv2d: 3,
    torch.conv3d: 4,
    torch.conv_transpose1d: 2,
    torch.conv_transpose2d: 3,
    torch.conv_transpose3d: 4,
}
