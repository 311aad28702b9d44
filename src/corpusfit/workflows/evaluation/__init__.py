"""Evaluate a model on a task, and forecast its gain: evaluate, forecast."""
