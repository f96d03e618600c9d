"""What attention sees of a draft tree: the cache, the mask, and positions that models treat in their own ways."""
