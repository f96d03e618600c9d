"""The metadata lives in setup.cfg; this file lets every version of pip install the folder as editable."""

from setuptools import setup

setup()
