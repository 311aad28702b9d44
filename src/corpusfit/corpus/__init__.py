"""Stage 1, read: from files, folders, URLs, datasets or standard input to shards of rows."""
