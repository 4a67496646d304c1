"""The source of CSV, Parquet and DuckDB files: its dialect, how its types are read, how files are opened."""
