"""Runs: from a config to a folder with a trained, judged model, and back."""
