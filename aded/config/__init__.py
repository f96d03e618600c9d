"""From a command's words to objects: its line, the configs that Hydra composes, the classes that they name."""
