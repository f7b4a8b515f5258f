"""The sidebar, the tour and preloading."""
