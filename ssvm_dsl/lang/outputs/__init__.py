"""What is predicted, and which of it factors join."""
