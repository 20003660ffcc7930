"""Sources that come with Tidelog."""
