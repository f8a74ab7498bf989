"""What judges hard constraints: the kinds of plug-ins and the user's own classes, contained and checked."""
