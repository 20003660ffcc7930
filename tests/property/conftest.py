"""No deadline for one example: a busy machine is slow, not wrong."""

from hypothesis import settings

settings.register_profile("tidelog", deadline=None)
settings.load_profile("tidelog")
