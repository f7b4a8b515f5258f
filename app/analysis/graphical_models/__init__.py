"""Graphical models of the families of models."""
