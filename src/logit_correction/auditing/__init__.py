"""The audit: is there a shortcut in data without group labels, what is it, which rows, and what would it cost?"""
