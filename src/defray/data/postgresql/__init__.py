"""The source of tables in a PostgreSQL database."""
