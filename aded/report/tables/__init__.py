"""The tables of a folder of runs, one file each."""
