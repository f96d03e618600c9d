"""Tables, plots and micro-benchmarks; each is run as `python -m scripts.NAME`."""
