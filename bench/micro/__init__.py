"""The native loops one by one: `python -m bench.micro [NAME...]`, a file for each module of `tidelog._speed`.

`log.py` runs on its own: it measures the storage engine around them.
"""
