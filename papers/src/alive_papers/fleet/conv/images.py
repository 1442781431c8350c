"""Images of a batch laid into maps, sixteen at once; in training each moved, mirrored or blanked as chance had it."""

from __future__ import annotations

import numpy as np

from ..compiled import kernel
from ..lanes import WIDTH

ZERO = np.float32(0)
DOWN, RIGHT, MIRRORED, TOP, LEFT = range(5)  # columns of the moves, see data.augment.Moves


@kernel
def lay(plan, image, lane, maps):  # type: ignore[no-untyped-def]
    """Lay one image into a lane of maps [channel, M]."""
    reach = plan.taps // 2
    pitch = plan.side + 2 * reach
    for c in range(maps.shape[0]):
        row = maps[c]
        for y in range(plan.side):
            start = (c * plan.side + y) * plan.side
            at = ((y + reach) * pitch + reach) * WIDTH + lane
            for i in range(plan.side):
                row[at + i * WIDTH] = image[start + i]


@kernel
def lay_moved(plan, image, move, lane, maps):  # type: ignore[no-untyped-def]
    """The same, cropped from a border of zeros, and mirrored."""
    side, reach = plan.side, plan.taps // 2
    pitch, down, right = side + 2 * reach, move[DOWN], move[RIGHT]
    for c in range(maps.shape[0]):
        row = maps[c]
        for y in range(side):
            at = ((y + reach) * pitch + reach) * WIDTH + lane
            from_y = y + down
            for i in range(side):
                from_x = (side - 1 - i if move[MIRRORED] else i) + right
                if 0 <= from_y < side and 0 <= from_x < side:
                    row[at + i * WIDTH] = image[(c * side + from_y) * side + from_x]
                else:
                    row[at + i * WIDTH] = ZERO


@kernel
def blank(plan, move, lane, maps):  # type: ignore[no-untyped-def]
    """Fill the square of one image with zero, or with its own mean in each channel."""
    side, reach = plan.side, plan.taps // 2
    pitch, top, left = side + 2 * reach, max(move[TOP], 0), max(move[LEFT], 0)
    bottom, right = min(move[TOP] + plan.cutout, side), min(move[LEFT] + plan.cutout, side)
    for c in range(maps.shape[0]):
        row, held = maps[c], 0.0
        if plan.mean_fill:
            for y in range(top, bottom):
                for i in range(left, right):
                    held += np.float64(row[((y + reach) * pitch + i + reach) * WIDTH + lane])
        fill = np.float32(held / ((bottom - top) * (right - left)))
        for y in range(top, bottom):
            for i in range(left, right):
                row[((y + reach) * pitch + i + reach) * WIDTH + lane] = fill


@kernel
def load_images(plan, x, chosen, maps):  # type: ignore[no-untyped-def]
    """Lay sixteen images as they are into maps [channel, M]; the last one over the padding too."""
    for lane in range(WIDTH):
        lay(plan, x[chosen[min(lane, chosen.size - 1)]], lane, maps)


@kernel
def load_batch(plan, x, chosen, moves, s):  # type: ignore[no-untyped-def]
    """Lay the chosen images into s.x, moved where there are moves; a copy in the padding is moved as its original."""
    for n in range((chosen.size + WIDTH - 1) // WIDTH * WIDTH):
        k, lane, maps = min(n, chosen.size - 1), n % WIDTH, s.x[n // WIDTH]
        if moves.shape[0]:
            lay_moved(plan, x[chosen[k]], moves[k], lane, maps)
            if plan.cutout:
                blank(plan, moves[k], lane, maps)
        else:
            lay(plan, x[chosen[k]], lane, maps)
    for n in range(s.real.shape[1]):
        s.real[0, n] = np.float32(n < chosen.size)
