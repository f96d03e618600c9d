"""Draft tree, sampler, the contracts of drafter and target, the one decode loop. Knows no text and no file."""
