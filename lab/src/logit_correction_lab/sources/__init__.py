"""Data sets: those of the paper, stand-ins for them, planted ones and real ones."""
