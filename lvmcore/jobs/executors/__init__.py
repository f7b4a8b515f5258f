"""Where the runs of a store are executed: processes of this machine, or a Ray cluster."""
