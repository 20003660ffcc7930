"""TLS and SASL: the identity of the client and of the broker."""
