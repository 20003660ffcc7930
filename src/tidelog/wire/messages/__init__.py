"""One module per API, each with all versions of its request and response; written by tools/wire/generate.py."""
