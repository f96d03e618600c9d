"""The searches that turn the tri-gram matrix into a draft tree: mcts (the paper), best_first, greedy, full."""
