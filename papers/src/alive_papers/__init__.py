"""The laboratory of alive: the five papers, what they are compared with, and all that was measured.

The library, `alive`, imports nothing of it. Installed beside it, it adds its commands and data sets to `alive`.
"""
