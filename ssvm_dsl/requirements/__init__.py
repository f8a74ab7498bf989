"""What a program asks of a backend: its sizes, elimination orders, properties of its tables."""
