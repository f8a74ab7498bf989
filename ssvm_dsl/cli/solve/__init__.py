"""``ssvm solve``: factor graphs in files; one question, its verified answer, and how it is shown."""
