"""The training loop, its optimisers, selection rules and checkpoints."""
