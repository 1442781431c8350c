"""Pictures and pages from finished numbers; nothing here trains a model."""
