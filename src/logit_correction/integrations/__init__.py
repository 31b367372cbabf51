"""Faces of the library for users of others: the same training under their names, one file or folder each."""
