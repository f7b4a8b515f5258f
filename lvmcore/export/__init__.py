"""Export of maps: tables, AnnData files, and figures for print."""
