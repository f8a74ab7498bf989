"""What each kind of plug-in implements."""
