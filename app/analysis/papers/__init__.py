"""What the papers report, beside what was measured here."""
