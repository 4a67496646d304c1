"""Access tokens of an OpenID Connect issuer, as bearer tokens of the service (RFC 9068, RFC 8725)."""
