"""What people look at: tables and live progress."""
