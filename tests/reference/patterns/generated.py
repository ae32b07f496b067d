"""Generated sparse patterns."""

from __future__ import annotations

from hypothesis import strategies as st

from attnscope.reference import BlockSparse, Fixed, LocalGlobal, Pattern, SlidingWindow, Strided

SMALL = st.integers(0, 4)
LAYOUTS = st.lists(st.lists(st.booleans(), min_size=7, max_size=7), min_size=7, max_size=7)
PATTERNS: st.SearchStrategy[Pattern] = st.one_of(
    st.builds(SlidingWindow, SMALL, SMALL, st.integers(1, 3)),
    st.builds(Strided, st.integers(1, 5), st.sampled_from(["both", "local", "column"])),
    st.builds(lambda stride, less: Fixed(stride, max(1, stride - less)), st.integers(1, 5), SMALL),
    st.builds(BlockSparse, LAYOUTS, st.integers(2, 4), st.booleans()),
    st.builds(
        LocalGlobal,
        SMALL,
        SMALL,
        st.lists(st.integers(0, 15), max_size=3).map(tuple),
        st.booleans(),
    ),
)
ALIGNMENTS = st.sampled_from(["top-left", "bottom-right"])
