"""Other inference engines behind one protocol, each in a process and an environment of its own."""
