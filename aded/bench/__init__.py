"""One run, and sweeps: questions, objects from the config, answers in turn with the baseline, progress, W&B."""
