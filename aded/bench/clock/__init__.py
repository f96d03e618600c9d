"""The one clock: a turn's timing, and what the machine did beside it."""
