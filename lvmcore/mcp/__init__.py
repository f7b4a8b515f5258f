"""Datasets and runs of a store as tools of the Model Context Protocol, for agents and scripts."""
