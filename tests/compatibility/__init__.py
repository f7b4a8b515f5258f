"""What an earlier version wrote still opens: models, stores, run folders, addresses, selections."""
