"""Runs, models and tables for the pages: the only package that caches.

``app.services.caching`` holds the cache. All sessions of the server share its results, so callers
must not change them.
"""
