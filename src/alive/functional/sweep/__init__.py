"""ReLU, extremes and slacks of one layer on a CPU, in one sweep over its memory; the way back in another.

A layer lies in memory as rows [N, P, C], the units innermost (dense layers, sequences, channels_last), or as maps
[N, C, P], the positions innermost. Groups are units, and points; a layer as a whole (mode L) is one point. Tensors
come as addresses, because turning each into an array costs more than a small layer takes; 0 is "none".

Floats are compared as whole numbers in the same order (`keys.key`), which runs in vectors where floats do not, makes
−0 and 0 equal, and lets NaN lie beyond the infinities.

What backward needs is kept in one row of bytes. LISTED: for each missed end its place in memory times 4, plus which end
it is (0 and 1: the largest and smallest of its unit, 2 and 3: of its point), as int32. TIED: before these, ∂s/∂z at
each (in z's dtype), for equal ends share it. MARKED, where very many tie: a byte a value whose bits 0 to 3 say which
ends it is, and ∂s/∂z [2, groups] of each end.
"""
