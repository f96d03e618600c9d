"""What `import aded` offers: drafters by their names, in any program. docs/python_api.md shows it."""
