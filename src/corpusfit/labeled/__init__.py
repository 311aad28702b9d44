"""Labeled tasks as files: their splits and formats, and their texts without labels."""
