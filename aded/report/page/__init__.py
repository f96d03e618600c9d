"""The report: one HTML page that explains runs, and shows their draft trees."""
