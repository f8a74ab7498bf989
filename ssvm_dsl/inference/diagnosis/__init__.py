"""Why there is no answer: constraints that contradict each other, truths that break them, answers that are missing."""
