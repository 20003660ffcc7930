"""TLS and SASL: who the client is, and who the broker is."""
