"""The paper's drafter and what goes beyond it."""
