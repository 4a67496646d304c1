"""The durable memory in a schema of a PostgreSQL database, for any number of servers.

Only this package imports psycopg.
"""
