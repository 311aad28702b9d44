"""Contamination: find, report and leave out texts that contain held-out texts of a task."""
