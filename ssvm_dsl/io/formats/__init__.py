"""Readers and writers of the file formats of other tools."""
