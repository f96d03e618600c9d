"""The back-off drafter's parts: what predicts the next token, how the predictions mix, and the tree search."""
