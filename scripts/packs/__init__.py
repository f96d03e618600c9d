"""Numbers rebuilt from packs, for scripts.replay and scripts.leaderboard."""
