"""What the machine did to the times of a run, and what taking turns costs."""
