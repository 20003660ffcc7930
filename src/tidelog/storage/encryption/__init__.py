"""Encryption at rest: keys, the format of encrypted files, and the disk that encrypts what it is given."""
