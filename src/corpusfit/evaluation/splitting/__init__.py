"""Divide a data set into train, dev and test without overlap: split."""
