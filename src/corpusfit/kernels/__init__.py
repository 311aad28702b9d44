"""Pure functions over arrays, compiled with numba: no I/O, no logging, no torch."""
