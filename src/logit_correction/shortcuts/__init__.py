"""Is there a shortcut, which rows hold it, and what is best to train: the search, the audit, and new rows."""
