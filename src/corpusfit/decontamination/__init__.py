"""Find texts that contain held-out texts, exact, edited or within another."""
