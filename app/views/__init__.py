"""The pages, a package each. They never import one another."""
