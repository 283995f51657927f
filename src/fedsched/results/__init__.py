"""Run logs, their analysis, figures and the report."""
