"""The interactive map in a Jupyter notebook: ``lvmcore.show``, with the package anywidget."""
