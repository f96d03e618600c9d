"""Draft makers: searches that turn the tri-gram matrix into a draft tree. mcts is the paper's."""
