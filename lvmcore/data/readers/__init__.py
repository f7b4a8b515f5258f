"""Readers of the file formats, and the sandbox for untrusted files."""
