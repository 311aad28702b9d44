"""8 judge: fine-tune on the task with several seeds, measure, compare, say what it shows."""
