"""Block-coordinate descent on the dual bound: updates of ``mplp``, ``msd`` and ``tbcd``."""
