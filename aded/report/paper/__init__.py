"""The paper's layout: our numbers beside published figures."""
