"""One script a page, run by the navigation in main.py."""
