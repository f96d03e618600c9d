"""ADED: the tri-gram matrix, and the drafter that searches it."""
