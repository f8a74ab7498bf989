"""The declared loss over a batch: potentials of variables, tables of joint states, functions of counts."""
