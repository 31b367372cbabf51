"""The audit: is there a shortcut in a data set without group labels, what is it, which rows, and what would it cost?

``api`` runs it, ``search`` trains what it needs, ``rows`` puts down every row, ``figures`` and ``contrast`` say what
they come to, ``budget`` asks a person for the attribute of a few of them, ``page`` makes the page.
"""
