"""Findings for machines: rules with ids, what to ignore and to fail on, and JSON, SARIF, JUnit XML, Markdown."""
