"""Block-coordinate descent on the dual bound: the session of ``mplp`` and ``msd``, their updates, and compiled ones."""
