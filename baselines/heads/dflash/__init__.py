"""DFlash: block diffusion drafts a whole block in one forward; as a chain, or as the tree of DDTree."""
