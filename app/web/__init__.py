"""The web server around the pages: who may ask it, and what its answers carry."""
