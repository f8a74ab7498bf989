"""Which backend answers: what backends say to a need, the plan, and plans that are kept."""
