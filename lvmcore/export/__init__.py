"""What a person takes away: tables, AnnData files, pictures for print."""
