"""Logit correction inside other people's training code, one file a framework; each needs that framework alone."""
