"""What everything stands on: settings, errors, manifests, atomic file writes, engines."""
