"""The image and the compose file in a real Docker engine."""
