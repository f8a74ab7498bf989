"""Files that users hold in hands: opening and unpacking them, and the lines and columns of text.

All readers begin here.
"""
